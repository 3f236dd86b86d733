"""Whether a page is well-formed."""

from html.parser import HTMLParser


class Balance(HTMLParser):
    """Every element that opens closes, in order."""

    VOID = frozenset({"meta", "link", "br", "circle", "line", "rect", "path", "polyline"})

    def __init__(self):
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attributes):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag, f"</{tag}> closes something else"
