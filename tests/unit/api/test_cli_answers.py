"""What commands read of answers is what the service's documents have."""

from __future__ import annotations

import msgspec
import pytest
from pydantic import BaseModel

from api import cli_answers
from api.schemas.alarms import AlarmDocument, AlarmsDocument
from api.schemas.health import HealthDocument, ReadinessDocument
from api.schemas.predictions import PredictionDocument, SlowdownDocument, WatermarkDocument
from api.schemas.recommendation import (
    CandidateDocument,
    ImprovementDocument,
    RecommendationDocument,
    RecommendationsDocument,
    SecondOpinionDocument,
)
from api.schemas.rollouts import (
    FreezeDocument,
    RolloutDocument,
    RolloutEventDocument,
    RolloutsDocument,
    RolloutSwitchDocument,
)
from api.schemas.switches import SwitchDocument
from api.schemas.telemetry import FlowDocument, FlowsDocument, QueueDocument, StateDocument

PAIRS: dict[type[msgspec.Struct], type[BaseModel]] = {
    cli_answers.MarkAnswer: WatermarkDocument,
    cli_answers.SlowdownAnswer: SlowdownDocument,
    cli_answers.PredictionAnswer: PredictionDocument,
    cli_answers.CandidateAnswer: CandidateDocument,
    cli_answers.ImprovementAnswer: ImprovementDocument,
    cli_answers.OpinionAnswer: SecondOpinionDocument,
    cli_answers.RecommendationAnswer: RecommendationDocument,
    cli_answers.RecommendationsAnswer: RecommendationsDocument,
    cli_answers.RolloutSwitchAnswer: RolloutSwitchDocument,
    cli_answers.RolloutEventAnswer: RolloutEventDocument,
    cli_answers.RolloutAnswer: RolloutDocument,
    cli_answers.RolloutsAnswer: RolloutsDocument,
    cli_answers.FlowAnswer: FlowDocument,
    cli_answers.FlowsAnswer: FlowsDocument,
    cli_answers.AlarmAnswer: AlarmDocument,
    cli_answers.AlarmsAnswer: AlarmsDocument,
    cli_answers.FreezeAnswer: FreezeDocument,
    cli_answers.SwitchAnswer: SwitchDocument,
    cli_answers.QueueAnswer: QueueDocument,
    cli_answers.StateAnswer: StateDocument,
    cli_answers.HealthAnswer: HealthDocument,
    cli_answers.ReadinessAnswer: ReadinessDocument,
}


def test_every_answer_is_held_to_a_document() -> None:
    answers = {one for one in vars(cli_answers).values() if isinstance(one, type(msgspec.Struct))}
    assert answers == set(PAIRS)


@pytest.mark.parametrize("answer", PAIRS, ids=lambda one: one.__name__)
def test_its_fields_are_the_documents(answer: type[msgspec.Struct]) -> None:
    assert set(answer.__struct_fields__) <= set(PAIRS[answer].model_fields)
