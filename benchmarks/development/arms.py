"""The arms of the development runs: settings of the levers by name."""

from dataclasses import replace

from network import Options

B = Options(damp=0.5)
ALL = replace(B, both=True, kj=True, maxima=True, mean=True, ptr2=True, keep=True, lossless=True)
ARMS = {
    "team": Options(hidden_in=False, skip=False, scale="none", latents=False),
    "base": B,
    "all": ALL,
    "b_keep": replace(B, keep=True),
    "b_ptr2": replace(B, ptr2=True),
    "ank": replace(ALL, keep=False, ptr2=False),
    "bk": replace(B, keep=True, ptr2=True),
    "bks": replace(B, keep=True, ptr2=True, sharp=True),
    "bkl": replace(B, keep=True, ptr2=True, lossless=True),
    "bkm": replace(B, keep=True, ptr2=True, maxima=True),
    "bkmean": replace(B, keep=True, ptr2=True, mean=True),
    "bkb": replace(B, keep=True, ptr2=True, both=True, kj=True, lossless=True),
    "bk_learnt": replace(B, keep=True, ptr2=True, scale="learnt"),
    "bk_cmp": replace(B, keep=True, ptr2=True, compare=True),
    "all_sharp": replace(ALL, sharp=True),
    "all_learnt": replace(ALL, scale="learnt"),
    "all_nodesv": replace(ALL, nodes_v=True),
    "all_cmp": replace(ALL, compare=True),
    "all_damp1": replace(ALL, damp=1.0),
    "all_damp0": replace(ALL, damp=0.0),
    "no_both": replace(ALL, both=False),
    "no_kj": replace(ALL, kj=False),
    "no_maxima": replace(ALL, maxima=False),
    "no_mean": replace(ALL, mean=False),
    "no_ptr2": replace(ALL, ptr2=False),
    "no_keep": replace(ALL, keep=False),
    "no_lossless": replace(ALL, lossless=False),
    "no_scale": replace(ALL, scale="none"),
    "no_skip": replace(ALL, skip=False),
    "no_latents": replace(ALL, latents=False),
    "no_hidden": replace(ALL, hidden_in=False),
    "tgmpnn": Options(tea=False, damp=1.0),
    "tgmpnn_damp": Options(tea=False, damp=0.5),
    "tgmpnn_all": Options(tea=False, damp=0.5, both=True, mean=True, ptr2=True, keep=True, lossless=True),
}
