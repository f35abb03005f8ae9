"""`python -m bench engine handlers`: plain handlers beside `async def` ones, once with little of all."""

import json
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.__main__ import bench as command


@pytest.mark.slow
def test_the_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    words = ["engine", "handlers", "--store", "sqlite", "--quick", "--rounds", "1", "--jobs", "400", "--json"]
    result = CliRunner().invoke(command, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    [store] = json.loads(result.stdout)["stores"]
    assert set(store["rates"]) == {"async", "plain"}
    assert set(store["others"]) == {"async_cpu", "plain_cpu"}
    assert [aim["figure"] for aim in store["aims"]] == ["plain_vs_async"]
    for name, figure in {**store["rates"], **store["ratios"], **store["others"]}.items():
        assert figure["median"] > 0, name
        assert len(figure["rounds"]) == store["rounds"] == 1
    assert list(tmp_path.iterdir()) == []
