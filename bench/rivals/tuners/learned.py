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
Making = Callable[..., Learner]

LEARNERS: Mapping[str, Making] = MappingProxyType(
    {
        "acc": Acc,
        "pet": Pet,
        "pet-delay": partial(Pet, score="delay"),
        "pet-delay-no-flows": partial(Pet, score="delay", flows=False),
        "pet-delay-lambda-0.95": partial(Pet, score="delay", trace=0.95),
    }
)
_ABOUT = {
    "acc": "ACC, SIGCOMM 2021: double DQN, memories exchanged",
    "pet": "PET: independent PPO, its reward 1 ÷ queue in KB",
    "pet-delay": "PET with ACC's D(L) for 1 ÷ queue",
    "pet-delay-no-flows": "the same without incast degree and share of mice",
    "pet-delay-lambda-0.95": "the same with λ 0.95 for 0.01",
}


def policy_of(name: str) -> Policy:
    """The trained policy of a learner; raises ``ParameterError`` where there is none of its kind."""
    of_learner = feature_names(flows=name not in ("acc", "pet-delay-no-flows"))
    features = ai_ecn.FEATURES if name == ai_ecn.KIND else of_learner
    return load(FOLDER / f"{name}.npz", name, features)


def tuners() -> dict[str, tuple[Callable[[], Tuner], str]]:
    """Every learner online and frozen, by name: how to make it, and what it is."""
    found: dict[str, tuple[Callable[[], Tuner], str]] = {}
    for name, make in LEARNERS.items():
        for mode, suffix, says in (
            (Mode.ONLINE, "", "each switch training on"),
            (Mode.FROZEN, "-frozen", "as trained offline"),
        ):

            def made(name: str = name, make: Making = make, mode: Mode = mode) -> Tuner:
                return make(mode, policy_of(name))

            found[name + suffix] = (made, f"{_ABOUT[name]}; {says}")
    return found | {
        "ai-ecn": (lambda: AiEcn(policy_of(ai_ecn.KIND)), "AI-ECN: model where sure, else heuristic"),
        "ai-ecn-heuristic": (lambda: AiEcn(None), "its heuristic alone"),
        "ai-ecn-frozen": (lambda: AiEcn(policy_of(ai_ecn.KIND), confident=0.0), "its model alone"),
    }
