"""No layer looks up, and no modules import each other round about."""

from tests.house import layers


def test_every_module_has_a_layer() -> None:
    named = set().union(*layers.LAYERS)
    folders = {name.split(".")[1] for name in layers.modules() if name.startswith("windlass.")}
    assert folders - {"__main__"} <= named, "say in tests/house/layers.py where the new folder belongs"


def test_no_layer_looks_up() -> None:
    assert layers.upward(layers.imports()) == []


def test_no_folder_of_the_worker_looks_up() -> None:
    assert layers.upward_in_worker(layers.imports()) == []


def test_no_module_imports_itself_round_about() -> None:
    assert layers.cycles(layers.imports()) == []


def test_doors_are_in_use() -> None:
    """An exception that nobody needs any more goes."""
    for door in layers.DOORS:
        name, _, target = door.partition(" -> ")
        assert target in layers.modules()[name].read_text("utf-8")
