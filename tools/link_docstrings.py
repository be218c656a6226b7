"""A MkDocs hook that links the pages that docstrings name, such as docs/guides/keras.md."""

import re
from typing import Any

from mkdocs.utils import get_relative_url


def on_page_content(html: str, *, page: Any, files: Any, **_: Any) -> str:
    """Returns the HTML of a reference page with links, whose texts are the titles of the pages.

    Raises:
      ValueError: if a page does not exist.
    """
    if not page.file.src_uri.startswith("reference/"):
        return html

    def link(path: re.Match) -> str:
        target = files.get_file_from_path(path[1])
        if target is None:
            raise ValueError(f"a docstring on {page.file.src_uri} names {path[0]}, which does not exist")
        return f'<a href="{get_relative_url(target.url, page.url)}">{target.page.title}</a>'

    return re.sub(r"\bdocs/([\w/]+\.md)\b", link, html)
