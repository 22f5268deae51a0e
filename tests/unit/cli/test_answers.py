"""What commands read of answers is what the service's documents have."""

from __future__ import annotations

import msgspec
import pytest
from pydantic import BaseModel

from cli import answers
from service.documents.admin import HealthDocument, ReadinessDocument
from service.documents.advice import AdviceDocument, AdviserDocument
from service.documents.alarms import (
    AcknowledgementDocument,
    AlarmGroupDocument,
    AlarmSubjectDocument,
    SilenceDocument,
    SilencesDocument,
)
from service.documents.co_tuning import CoTuningDocument, SensitivityDocument, SettingChangeDocument
from service.documents.fabric import ConditionDocument
from service.documents.forecast import ForecastDocument, ForecastPathDocument, PortForecastDocument
from service.documents.history import AlarmDocument, AlarmsDocument
from service.documents.paths import (
    MovedDocument,
    PathFixDocument,
    PathGoodputDocument,
    PathMoveDocument,
    PathsDocument,
    PortLoadDocument,
)
from service.documents.predictions import (
    PredictionDocument,
    RoleWatermarkDocument,
    SlowdownDocument,
    WatermarkDocument,
)
from service.documents.recommendation import (
    BlockDocument,
    ExpiredDocument,
    RecommendationDocument,
    RecommendationsDocument,
    SupportDocument,
)
from service.documents.rollouts import (
    FreezeDocument,
    RolloutDocument,
    RolloutEventDocument,
    RolloutHashDocument,
    RolloutHostDocument,
    RolloutsDocument,
    RolloutSummaryDocument,
    RolloutSwitchDocument,
)
from service.documents.round import CandidateDocument, ImprovementDocument, SecondOpinionDocument
from service.documents.switches import CapabilitiesDocument, HashDocument, RoleTargetDocument, SwitchDocument
from service.documents.telemetry import FlowDocument, FlowsDocument, QueueDocument, StateDocument

PAIRS: dict[type[msgspec.Struct], type[BaseModel]] = {
    answers.MarkAnswer: WatermarkDocument,
    answers.SlowdownAnswer: SlowdownDocument,
    answers.ForecastPathAnswer: ForecastPathDocument,
    answers.PortForecastAnswer: PortForecastDocument,
    answers.ForecastAnswer: ForecastDocument,
    answers.PredictionAnswer: PredictionDocument,
    answers.CandidateAnswer: CandidateDocument,
    answers.ImprovementAnswer: ImprovementDocument,
    answers.OpinionAnswer: SecondOpinionDocument,
    answers.ExpiredAnswer: ExpiredDocument,
    answers.BlockAnswer: BlockDocument,
    answers.SupportAnswer: SupportDocument,
    answers.CoTuningAnswer: CoTuningDocument,
    answers.RoleMarkAnswer: RoleWatermarkDocument,
    answers.RoleTargetAnswer: RoleTargetDocument,
    answers.SettingChangeAnswer: SettingChangeDocument,
    answers.SensitivityAnswer: SensitivityDocument,
    answers.PathsAnswer: PathsDocument,
    answers.PathFixAnswer: PathFixDocument,
    answers.PortLoadAnswer: PortLoadDocument,
    answers.MovedAnswer: MovedDocument,
    answers.PathMoveAnswer: PathMoveDocument,
    answers.PathGoodputAnswer: PathGoodputDocument,
    answers.ConditionAnswer: ConditionDocument,
    answers.RecommendationAnswer: RecommendationDocument,
    answers.AdviceAnswer: AdviceDocument,
    answers.AdviserAnswer: AdviserDocument,
    answers.RecommendationsAnswer: RecommendationsDocument,
    answers.RolloutSwitchAnswer: RolloutSwitchDocument,
    answers.RolloutHostAnswer: RolloutHostDocument,
    answers.RolloutEventAnswer: RolloutEventDocument,
    answers.RolloutHashAnswer: RolloutHashDocument,
    answers.HashAnswer: HashDocument,
    answers.RolloutSummaryAnswer: RolloutSummaryDocument,
    answers.ListedRolloutAnswer: RolloutDocument,
    answers.RolloutAnswer: RolloutDocument,
    answers.RolloutsAnswer: RolloutsDocument,
    answers.FlowAnswer: FlowDocument,
    answers.FlowsAnswer: FlowsDocument,
    answers.AlarmAnswer: AlarmDocument,
    answers.AlarmGroupAnswer: AlarmGroupDocument,
    answers.AlarmsAnswer: AlarmsDocument,
    answers.AlarmSubjectAnswer: AlarmSubjectDocument,
    answers.AcknowledgementAnswer: AcknowledgementDocument,
    answers.SilenceAnswer: SilenceDocument,
    answers.SilencesAnswer: SilencesDocument,
    answers.FreezeAnswer: FreezeDocument,
    answers.CapabilitiesAnswer: CapabilitiesDocument,
    answers.SwitchAnswer: SwitchDocument,
    answers.QueueAnswer: QueueDocument,
    answers.StateAnswer: StateDocument,
    answers.HealthAnswer: HealthDocument,
    answers.ReadinessAnswer: ReadinessDocument,
}


def test_every_answer_is_held_to_a_document() -> None:
    found = {one for one in vars(answers).values() if isinstance(one, type(msgspec.Struct))}
    assert found == set(PAIRS)


@pytest.mark.parametrize("answer", PAIRS, ids=lambda one: one.__name__)
def test_its_fields_are_the_documents(answer: type[msgspec.Struct]) -> None:
    assert set(answer.__struct_fields__) <= set(PAIRS[answer].model_fields)
