"""Puts a run into the repository: golden data and results under tests/golden, tables into docs/design/gpu.md."""

import pathlib
import shutil

import golden_cases

from gpu_checks import results
from gpu_checks.summary import to_markdown

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
BEGIN = "<!-- Results: written by tools/gpu_check.py publish -->"
END = "<!-- End of results -->"


def publish(folder: pathlib.Path, repository: pathlib.Path = REPOSITORY) -> list[pathlib.Path]:
    """Returns the files that it wrote.

    Args:
      folder: the output of a run.
      repository: where the files go.

    Raises:
      ValueError: if the run was not on a GPU, its files are damaged, or docs/design/gpu.md has not each mark once.
    """
    report = results.read(folder / results.RESULTS)
    library = report.environment.get("library")
    if library != "cuDNN":
        raise ValueError(f"{folder} has a run of {library}, should be of cuDNN: only runs on a GPU are published")
    page = repository / "docs/design/gpu.md"
    text = _with_block(page, to_markdown(report))
    golden = repository / "tests/golden"
    written = [golden / results.RESULTS, page]
    if (folder / results.ARCHIVE).exists():
        _check_archive(folder / results.ARCHIVE)
        shutil.copyfile(folder / results.ARCHIVE, golden / results.ARCHIVE)
        written.append(golden / results.ARCHIVE)
    results.write_condensed(report, golden / results.RESULTS)
    page.write_text(text)
    return written


def _check_archive(archive: pathlib.Path) -> None:
    """Refuses an archive with a recording that cannot be read, or is not cuDNN's."""
    for name in golden_cases.names(archive):
        library = golden_cases.load(archive, name).recorded_with["library"]
        if library != "cuDNN":
            raise ValueError(f"{archive} has a recording of {library}, should be of cuDNN")


def _with_block(page: pathlib.Path, block: str) -> str:
    """Returns the text of a page with a block between its marks."""
    text = page.read_text()
    if not (text.count(BEGIN) == text.count(END) == 1):
        raise ValueError(f"{page} must hold {BEGIN!r} and {END!r} once each")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{block}\n{END}{after}"
