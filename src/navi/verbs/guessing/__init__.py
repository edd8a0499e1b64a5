"""What belongs in a gap: the values a column may take, all evidence for them, and values put together anew."""

from navi.verbs.guessing.blend import Blend
from navi.verbs.guessing.config import GuessConfig
from navi.verbs.guessing.formats import learn_format
from navi.verbs.guessing.gaps import Gaps
from navi.verbs.guessing.guesser import GENERATED, KNOWN, Guesser, Guesses

__all__ = ["GENERATED", "KNOWN", "Blend", "Gaps", "GuessConfig", "Guesser", "Guesses", "learn_format"]
