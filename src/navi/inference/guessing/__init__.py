"""What belongs in a gap: the values a column may take, all evidence for them, and values put together anew."""

from navi.inference.guessing.blend import Blend
from navi.inference.guessing.config import GuessConfig
from navi.inference.guessing.formats import learn_format
from navi.inference.guessing.gaps import Gaps
from navi.inference.guessing.guesser import GENERATED, KNOWN, Guesser, Guesses

__all__ = ["GENERATED", "KNOWN", "Blend", "Gaps", "GuessConfig", "Guesser", "Guesses", "learn_format"]
