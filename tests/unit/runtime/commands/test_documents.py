from pathlib import Path

import pytest
from click.testing import CliRunner

from meterline.runtime.commands.documents import main


@pytest.mark.parametrize("arguments", [["--help"], []])
def test_how_it_is_used_is_told_and_nothing_written(arguments: list[str], tmp_path: Path) -> None:
    runner = CliRunner()
    with runner.isolated_filesystem(tmp_path) as folder:
        result = runner.invoke(main, arguments)
        assert list(Path(folder).iterdir()) == []
    assert "FOLDER" in result.output


def test_both_documents_are_written(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    result = CliRunner().invoke(main, [str(folder)])
    assert (result.exit_code, result.output) == (0, "")
    assert sorted(file.name for file in folder.iterdir()) == ["v1.json", "v3.json"]
