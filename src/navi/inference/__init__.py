"""What a user asks of a trained model: embeddings, names, fills, matches, neighbours."""

from navi.inference.navi import Navi

__all__ = ["Navi"]
