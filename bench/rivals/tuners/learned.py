"""The learners by name: how each is trained, which policy file it comes from, how it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from bench.rivals.tuner import Tuner
from bench.rivals.tuners import ai_ecn
from bench.rivals.tuners.acc import Acc
from bench.rivals.tuners.agents import Learner, Mode
from bench.rivals.tuners.ai_ecn import AiEcn
from bench.rivals.tuners.monitor import feature_names
from bench.rivals.tuners.pet import Pet
from bench.rivals.tuners.policy import FOLDER, Policy, load

# With a policy or without: frozen, online, or offline to be trained. PET's variants have D(L): 1 ÷ queue in
# KB tells queues beyond 20 KB, where its ladder begins, hardly apart.
LEARNERS: Mapping[str, Callable[..., Learner]] = MappingProxyType(
    {
        "acc": Acc,
        "pet": Pet,
        "pet-delay": partial(Pet, score="delay"),
        "pet-delay-no-flows": partial(Pet, score="delay", flows=False),
        "pet-delay-lambda-0.95": partial(Pet, score="delay", trace=0.95),
    }
)


def policy_of(name: str) -> Policy:
    """The trained policy of a learner; raises ``ParameterError`` where there is none of its kind."""
    of_learner = feature_names(flows=name not in ("acc", "pet-delay-no-flows"))
    features = ai_ecn.FEATURES if name == ai_ecn.KIND else of_learner
    return load(FOLDER / f"{name}.npz", name, features)


def _trained(name: str, mode: Mode) -> Tuner:
    return LEARNERS[name](mode, policy_of(name))


def tuners() -> dict[str, Callable[[], Tuner]]:
    """How to make every learner, online and frozen, by name."""
    return {
        **{name: partial(_trained, name, Mode.ONLINE) for name in LEARNERS},
        **{f"{name}-frozen": partial(_trained, name, Mode.FROZEN) for name in LEARNERS},
        "ai-ecn": lambda: AiEcn(policy_of(ai_ecn.KIND)),
        "ai-ecn-heuristic": lambda: AiEcn(None),
        "ai-ecn-frozen": lambda: AiEcn(policy_of(ai_ecn.KIND), confident=0.0),
    }
