"""answers -> their claims, and one outcome for every sentence (Claimify, arXiv:2502.10855)."""
