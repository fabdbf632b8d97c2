"""Few-shot methods on batches of tasks, one file each, and their registry.

Examples
--------
>>> import numpy as np
>>> from marginshot.methods import get_method
>>> support = np.array([[[0.0, 1.0], [1.0, 0.0]]])
>>> query = np.array([[[0.1, 0.9], [0.8, 0.1], [1.0, 0.2]]])
>>> get_method("protonet").predict_scores(support, np.array([[0, 1]]), query).argmax(axis=2)
array([[0, 1, 1]])
"""

from marginshot.methods.adaptive_manifold import AdaptiveManifold
from marginshot.methods.alpha_tim import AlphaTIM
from marginshot.methods.base import METHODS, Method, get_method
from marginshot.methods.baseline import Baseline, BaselinePlusPlus
from marginshot.methods.bavardage import BAVARDAGE
from marginshot.methods.bd_cspn import BDCSPN, BDCSPNEasyFSL
from marginshot.methods.bms import BMS
from marginshot.methods.bpa import BPA
from marginshot.methods.em_dirichlet import EMDirichlet, HardEMDirichlet
from marginshot.methods.fs_tmmc import FSMMC, FSTMMC, FSTMMCAuto, FSTMMCBalanced, FSTMMCEstimatedPrior, FSTMMCPrinted
from marginshot.methods.ilpc import ILPC
from marginshot.methods.label_propagation import LabelPropagation
from marginshot.methods.laplacianshot import LaplacianShot, LaplacianShotEasyFSL, LaplacianShotUnrectified
from marginshot.methods.lp_plus_plus import LPPlusPlus
from marginshot.methods.matchingnet import MatchingNet
from marginshot.methods.ostim import OSTIM
from marginshot.methods.paddle import PADDLE
from marginshot.methods.prior import PriorMethod, takes_prior
from marginshot.methods.protolp import ProtoLP
from marginshot.methods.protonet import ProtoNet
from marginshot.methods.pt_map import PTMAP
from marginshot.methods.ridge import RidgeHead
from marginshot.methods.simpleshot import SimpleShot, SimpleShotL2N, SimpleShotUN
from marginshot.methods.soft_kmeans import SoftKMeans
from marginshot.methods.stata import StatA
from marginshot.methods.svm import SVMHead
from marginshot.methods.tim_gd import TIMGD, TIMGDEasyFSL
from marginshot.methods.transclip import TransCLIP, TransCLIPZeroShot
from marginshot.methods.transductive_finetuning import TransductiveFinetuning
from marginshot.methods.unem import UNEMGaussian
from marginshot.methods.zero_shot import ZeroShot
from marginshot.methods.zlap import ZLaP

__all__ = [
    "BAVARDAGE",
    "BDCSPN",
    "BMS",
    "BPA",
    "FSMMC",
    "FSTMMC",
    "ILPC",
    "METHODS",
    "OSTIM",
    "PADDLE",
    "PTMAP",
    "TIMGD",
    "AdaptiveManifold",
    "AlphaTIM",
    "BDCSPNEasyFSL",
    "Baseline",
    "BaselinePlusPlus",
    "EMDirichlet",
    "FSTMMCAuto",
    "FSTMMCBalanced",
    "FSTMMCEstimatedPrior",
    "FSTMMCPrinted",
    "HardEMDirichlet",
    "LPPlusPlus",
    "LabelPropagation",
    "LaplacianShot",
    "LaplacianShotEasyFSL",
    "LaplacianShotUnrectified",
    "MatchingNet",
    "Method",
    "PriorMethod",
    "ProtoLP",
    "ProtoNet",
    "RidgeHead",
    "SVMHead",
    "SimpleShot",
    "SimpleShotL2N",
    "SimpleShotUN",
    "SoftKMeans",
    "StatA",
    "TIMGDEasyFSL",
    "TransCLIP",
    "TransCLIPZeroShot",
    "TransductiveFinetuning",
    "UNEMGaussian",
    "ZLaP",
    "ZeroShot",
    "get_method",
    "takes_prior",
]
