"""What may be asked: bodies of requests, with examples for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from ordbm.serve.id_text import check_text, id_of_json

MOST_ITEMS = 1000
MOST_RATINGS = 10_000
MOST_JOINT = 6  # pairs
MOST_TOGETHER = 10  # people

Id = Annotated[
    Any,
    AfterValidator(id_of_json),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "object"}],
            "description": "A number or text, which are different; or another type as a model "
            'file writes it, `{"uuid": "…"}`.',
        }
    ),
]
Words = Annotated[str, AfterValidator(check_text)]
Title = Annotated[Words, Field(pattern=r"^[^\x00]*$")]  # which PostgreSQL has no place for
Rating = Annotated[float | str, Field(description="A number, or a label of the scale.")]


class Body(BaseModel):
    """No member that is not known, and no number that is not finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ItemRating(Body):
    """An item and what somebody gave it."""

    item: Id
    rating: Rating


class PersonQuestion(Body):
    """Who it is about: somebody stored, somebody who gave ratings, or both."""

    user: Id | None = Field(None, description="Somebody whom the service knows, or a stranger.")
    ratings: dict[str, Rating] | list[ItemRating] | None = Field(
        None,
        description="Ratings by item: an object, whose keys are read as the model's ids are, or a "
        "list, whose ids keep their types.",
        max_length=MOST_RATINGS,
    )

    @model_validator(mode="after")
    def _is_about_somebody(self) -> PersonQuestion:
        if self.user is None and self.ratings is None and not getattr(self, "people", None):
            raise ValueError("say who it is about: user, ratings or both")
        return self


class PredictQuestion(PersonQuestion):
    """Which ratings are expected."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"user": 1, "items": [31, 1029]},
                {"ratings": {"31": 4, "1029": 2.5}, "items": [1061]},
            ]
        }
    )
    items: list[Id] = Field(min_length=1, max_length=MOST_ITEMS)
    mass: float = Field(0.8, gt=0, lt=1, description="Of the interval.")


class RecommendQuestion(PersonQuestion):
    """Which items are best."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"user": 1, "n": 5}, {"ratings": {"31": 4}, "n": 3}]}
    )
    n: int = Field(10, ge=1, le=MOST_ITEMS)
    by: Literal["liked", "rated", "gain", "energy", "mean"] | None = Field(
        None, description="What to rank by; what is likely to be liked unless told."
    )
    at_least: Rating | None = Field(None, description="What is rated so high is liked.")
    long_tail: float | None = Field(None, ge=0, le=10, description="In favour of what few know.")
    diversity: float = Field(0.0, ge=0, le=1)
    candidates: Literal["all", "similar_users", "linked"] | list[Id] = "all"
    most_ratings: int | None = Field(
        None, ge=0, description="Only items that so many people at most have rated."
    )
    exclude: list[Id] = Field([], max_length=MOST_RATINGS)
    distributions: bool = Field(False, description="Whether to add what is expected of each item.")


class ExplainQuestion(PersonQuestion):
    """What moved a prediction."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"user": 1, "item": 31}]})
    item: Id
    threshold: Rating | None = Field(None, description="The rating whose odds are explained.")
    n: int | None = Field(None, ge=0, le=MOST_RATINGS, description="Ratings listed one by one.")


class JointQuestion(PersonQuestion):
    """Which ratings are expected together: of one person, or of several people's."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"user": 1, "items": [31, 1029]},
                {"people": [{"user": 1}, {"ratings": {"31": 4}}], "items": [1061]},
            ]
        }
    )
    people: list[PersonQuestion] | None = Field(None, min_length=1, max_length=MOST_TOGETHER)
    items: list[Id] = Field(min_length=1, max_length=MOST_JOINT)
    at_least: Rating | None = Field(None, description="Of the event that all are so high.")

    @model_validator(mode="after")
    def _is_small(self) -> JointQuestion:
        if self.people is not None and (self.user is not None or self.ratings is not None):
            raise ValueError("say who it is about once: people, or user and ratings")
        if len(self.people or [self]) * len(self.items) > MOST_JOINT:
            raise ValueError(f"people times items must be {MOST_JOINT} pairs at most")
        return self


_Question = TypeVar("_Question", bound=PersonQuestion)


class Batch(Body, Generic[_Question]):
    """Several questions, answered in their order."""

    questions: list[_Question] = Field(min_length=1, max_length=MOST_ITEMS)


class RatingBody(Body):
    """One rating."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"rating": 4}]})
    rating: Rating


class ItemBody(Body):
    """What is known of an item besides its ratings."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"title": "Heat (1995)", "features": {"year": 1995}}]}
    )
    title: Title | None = Field(None, max_length=1000)
    features: dict[Words, Words | float | bool | list[Words] | None] | None = Field(
        None, max_length=200
    )


class FeedbackBody(Body):
    """What became of an item of a list that was shown."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"item": 31, "kind": "opened", "user": 1}]}
    )
    item: Id
    kind: Literal["seen", "opened", "chosen", "dismissed"]
    user: Id | None = None
