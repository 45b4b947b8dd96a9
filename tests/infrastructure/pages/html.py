"""What a page's HTML must be, checked without a browser."""

from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import pairwise

VOID = {"meta", "link", "input", "br", "hr", "img"}
OF_SVG_ALONE = {"rect", "circle", "path"}
NAMED_BY_LABEL = {"input", "select", "textarea"}


@dataclass
class Element:
    """An element with all that is in it."""

    tag: str
    attributes: dict[str, str | None]
    children: list["Element"] = field(default_factory=list)
    own_text: list[str] = field(default_factory=list)
    parent: "Element | None" = None

    def all(self, *tags: str) -> list["Element"]:
        found = []
        for child in self.children:
            if not tags or child.tag in tags:
                found.append(child)
            found += child.all(*tags)
        return found

    def one(self, tag: str) -> "Element":
        (found,) = self.all(tag)
        return found

    def get(self, name: str) -> str | None:
        return self.attributes.get(name)

    @property
    def text(self) -> str:
        parts: list[str] = []
        self._collect(parts)
        return " ".join("".join(parts).split())

    def _collect(self, parts: list[str]) -> None:
        queue = list(self.children)
        for piece in self.own_text:
            if piece == "\0":
                queue.pop(0)._collect(parts)
            else:
                parts.append(piece)


class _Parser(HTMLParser):
    """Builds the tree; every element but those without content is closed, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Element("document", {})
        self._open = [self.root]

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"an attribute twice in {tag}"
        element = Element(tag, dict(attrs), parent=self._open[-1])
        self._open[-1].children.append(element)
        self._open[-1].own_text.append("\0")
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID | OF_SVG_ALONE, f"{tag} cannot close itself"
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag):
        assert self._open[-1].tag == tag, f"</{tag}> where {self._open[-1].tag} is open"
        self._open.pop()

    def handle_data(self, data):
        self._open[-1].own_text.append(data)


def parse(text: str) -> Element:
    """The page as a tree; fails where it is not well-formed."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert parser._open == [parser.root]
    return parser.root


def check(page: Element) -> None:
    """What holds of every page: its structure, its names, and that it loads nothing strange."""
    _check_structure(page)
    _check_names(page)
    _check_tables(page)
    _check_sources(page)


def _check_structure(page: Element) -> None:
    assert page.one("html").get("lang") == "en"
    assert page.one("head").one("title").text
    assert len(page.all("main")) == len(page.all("header")) == len(page.all("footer")) == 1
    levels = [int(each.tag[1]) for each in page.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    first = page.one("body").all("a")[0]
    assert first.get("href") == f"#{page.one('main').get('id')}"
    for each in page.all("ul", "ol"):
        assert {child.tag for child in each.children} <= {"li"}
    for each in page.all("p"):
        inside = {child.tag for child in each.all()}
        assert not inside & {"p", "div", "ul", "ol", "table", "form", "section", "h2", "dl"}


def _check_names(page: Element) -> None:
    ids = Counter(each.get("id") for each in page.all() if each.get("id"))
    assert all(count == 1 for count in ids.values()), ids
    labelled = {each.get("for") for each in page.all("label")}
    assert labelled <= ids.keys()
    for each in page.all(*NAMED_BY_LABEL):
        assert each.get("id") in labelled, each
    for name in ("aria-labelledby", "aria-describedby"):
        for each in page.all():
            if (value := each.get(name)) is not None:
                assert set(value.split()) <= ids.keys()
    for each in page.all("svg"):
        assert each.get("role") == "img"
        assert each.get("aria-label")
    for each in page.all("nav", "section"):
        assert each.get("aria-label") or each.get("aria-labelledby")
    for each in page.all("a", "button"):
        assert each.text or each.get("aria-label"), each.attributes
    _check_landmarks(page)
    for each in page.all():
        if each.get("class") == "scroll":
            # What scrolls can be reached and scrolled by the keyboard.
            assert (each.get("tabindex"), each.get("role")) == ("0", "region")
            assert each.get("aria-label")


def _check_landmarks(page: Element) -> None:
    """No two landmarks have one name."""
    by_id = {each.get("id"): each for each in page.all() if each.get("id")}
    names = [
        each.get("aria-label") or by_id[each.get("aria-labelledby")].text
        for each in page.all()
        if each.tag in ("nav", "section") or each.get("role") == "region"
    ]
    assert len(set(names)) == len(names), names


def _check_tables(page: Element) -> None:
    for table in page.all("table"):
        assert table.one("caption").text
        columns = {_width(row) for row in table.all("tr")}
        assert len(columns) == 1, columns
        for each in table.all("th"):
            assert each.get("scope") in ("col", "row")
            assert each.text


def _width(row: Element) -> int:
    return sum(int(cell.get("colspan") or 1) for cell in row.all("th", "td"))


def _check_sources(page: Element) -> None:
    for each in page.all():
        assert "style" not in each.attributes
        assert not [name for name in each.attributes if name.startswith("on")]
        for name in ("src", "href", "action"):
            value = each.get(name)
            is_own = value is None or value.startswith(("/", "#", "?"))
            is_citation = each.tag == "a" and each.get("href") == each.text
            assert is_own or is_citation, value
    assert not page.all("style", "iframe", "object", "img")
    assert [each.get("src") for each in page.all("script")] == ["/pages/pages.js"]
