"""The code in README.md and docs/, the messages in docs/faq.md, and the TensorFlow versions that they are about."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
# The supported versions, oldest first.
TENSORFLOWS = re.findall(
    r'"(\d\.\d+)"', re.findall(r"^tensorflow-versions = (.*)$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[0]
)


def paths() -> list[str]:
    """Returns the paths of README.md and all pages in docs/, relative to the repository."""
    return ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


def text_of(page: str) -> str:
    """Returns the text of a page, given by its path in the repository."""
    return (ROOT / page).read_text()


def blocks(page: str, language: str) -> list[str]:
    """Returns the code blocks of a page in a language. Blocks with a title are programs: see `programs`."""
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(page), re.DOTALL | re.MULTILINE)


def code_of(page: str, language: str) -> str:
    """Returns the code blocks of a page as one script."""
    code = blocks(page, language)
    assert code, f"{page} has no code in {language}"
    return "\n".join(code)


def programs(page: str) -> dict[str, str]:
    """Returns the Python blocks of a page that have a file name as their title, by that name."""
    return dict(re.findall(r'^```python title="(.*?)"\n(.*?)^```', text_of(page), re.DOTALL | re.MULTILINE))


def outputs(page: str) -> list[str]:
    """Returns the output shown after Python blocks: text blocks with nothing in between."""
    return re.findall(r"^```python\n(?:(?!^```).)*^```\n\n```text\n(.*?)^```", text_of(page), re.DOTALL | re.MULTILINE)
