"""What answers look like, for the OpenAPI document; `answer_json` makes them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, Field

IdOut = int | str | float | dict[str, Any]
RatingOut = float | str


class Interval(BaseModel):
    """Where the middle of a distribution lies."""

    low: float
    high: float
    mass: float


class Expected(BaseModel):
    """What is expected of a rating."""

    item: IdOut
    known: bool = Field(description="Whether the model knows both the person and the item.")
    known_item: bool
    mean: float
    median: float
    mode: float
    deviation: float
    interval: Interval
    confidence: float
    p_rated: float | None = Field(description="None of a model that has not learnt it.")
    distribution: list[float] | None = Field(description="P of each of `levels`.")


class AboutPerson(BaseModel):
    """Who was asked about, by which model."""

    model: str
    user: IdOut | None
    known_user: bool
    levels: list[RatingOut] | None = Field(description="None on a continuous scale.")


class PredictAnswer(AboutPerson):
    """Expected ratings."""

    predictions: list[Expected]


class Reason(BaseModel):
    """An item that makes another likely to be rated."""

    item: IdOut
    effect: float


class Line(BaseModel):
    """An item of a list; with `distributions` also all that `predict` says of it."""

    item: IdOut
    title: str | None
    score: float | None
    mean: float
    confidence: float
    p_rated: float | None
    because: list[Reason]


class RecommendAnswer(AboutPerson):
    """A list, best first."""

    list_id: str = Field(description="For feedback on what was shown.")
    items: list[Line]


class ExplainedPart(BaseModel):
    """What one thing did to a prediction, or several ratings of a kind together."""

    kind: str
    effect: float
    item: IdOut | None
    rating: RatingOut | None
    n_ratings: int


class ExplainAnswer(AboutPerson):
    """A prediction in parts."""

    item: IdOut
    measure: str
    threshold: RatingOut | None
    base: float
    final: float
    parts: list[ExplainedPart]
    mean: float
    distribution: dict[str, Any]


class JointPair(BaseModel):
    """One of the ratings asked about; `person` counts from 0."""

    person: int
    item: IdOut
    mean: float
    distribution: list[float] | None = None


class Event(BaseModel):
    """How likely it is that all ratings are so high."""

    rating: float
    p: float


class JointAnswer(BaseModel):
    """Several ratings together."""

    model: str
    levels: list[RatingOut] | None
    people: list[IdOut | None]
    exact: bool
    pairs: list[JointPair]
    covariance: list[list[float]]
    most_likely: list[float]
    all_at_least: Event | None = None


_A = TypeVar("_A", bound=BaseModel)


class BatchAnswer(BaseModel, Generic[_A]):
    """Answers in the order of their questions."""

    answers: list[_A]


class SimilarOne(BaseModel):
    """An item or a user nearby."""

    id: IdOut
    similarity: float
    title: str | None = None


class SimilarAnswer(BaseModel):
    """The nearest, nearest first."""

    model: str
    similar: list[SimilarOne]


class StoredRating(BaseModel):
    """A rating that somebody has given."""

    item: IdOut
    title: str | None
    rating: RatingOut
    learnt: bool = Field(description="Whether it is in the parameters; all are conditioned on.")
    usable: bool = Field(description="False as long as the model does not know the item.")


class Profile(BaseModel):
    """What is known of somebody."""

    user: IdOut
    known_user: bool
    model: str
    n_ratings: int
    mean_rating: float | None
    ratings: list[StoredRating]
    next: str | None = None


class Acknowledged(BaseModel):
    """An acknowledged rating: it is on the disk, and the next answer knows it."""

    user: IdOut
    item: IdOut
    rating: RatingOut
    changed: bool = Field(description="False if this was its rating already.")
    change: int


class Item(BaseModel):
    """An item of the catalogue."""

    item: IdOut
    title: str | None
    n_ratings: int
    features: dict[str, Any] | None


class DescribedItem(Item):
    """An item as it is stored now."""

    learnt_from: list[str] = Field(
        description="Those of its features that the next update learns from; others are only shown."
    )


class ItemPage(BaseModel):
    """Some items, the most rated first."""

    items: list[Item]
    next: str | None = Field(description="Give it as `after` for the next page.")


class PlacedItem(BaseModel):
    """An item on the map; both coordinates are from -1 to 1."""

    item: IdOut
    title: str | None
    x: float
    y: float
    n_ratings: int


class MapAnswer(BaseModel):
    """The most rated items along two axes, the most rated first."""

    model: str
    items: list[PlacedItem]


class PlaceAnswer(BaseModel):
    """Somebody's place on the map; what is expected of its items, in their order."""

    model: str
    x: float
    y: float
    expected: list[float]


class ItemLevels(BaseModel):
    """How people rated an item: how often each of `levels`, or between each two `edges`."""

    model: str
    levels: list[RatingOut] | None
    edges: list[float] | None
    counts: list[int]


class Linked(BaseModel):
    """An item that another is linked with, and how strongly; below zero against each other."""

    item: IdOut
    title: str | None
    weight: float


class ItemLinks(BaseModel):
    """An item's strongest links."""

    model: str
    rated_alike: list[Linked] = Field(description="By the correlation of their ratings.")
    rated_together: list[Linked] = Field(description="By how one speaks for rating the other.")


class Imported(BaseModel):
    """How many ratings were read, and how many said something new."""

    read: int
    changed: int


class ModelAnswer(BaseModel):
    """The model that answers."""

    version: str
    ready: bool
    scale: dict[str, Any]
    users: int
    items: int
    ratings: int
    machine: str
    learnt: dict[str, str]
    item_features: list[str] = Field(description="Names of those that it was learnt with.")
    presence: bool
    popularity_deciles: list[int] = Field(
        description="Items that at most so many people rated have 0, 10, …, 100 % of all ratings."
    )
    pending: int = Field(description="Changes that are not in its parameters yet.")
