"""Programs that show Windlass at work. Run them from the folder above: `python -m examples.import_dump`."""
