"""The page of an evaluation: the paper's tables and figures, ours beside them."""

from navi_paper.page.evaluation_page import make_page

__all__ = ["make_page"]
