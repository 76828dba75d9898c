"""Define the schema of the four roles of stimuli."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from omegaconf import MISSING

from src.configs.fields import bounded_number, one_of

# Language whose words NRC-VAD rates itself.
RATED_LANGUAGE = "English"
# Field of faces that are standardised portraits; it affects no stimulus.
FACE_BOX = "face_box"


@dataclass
class RoleConfig:
    """One of the four roles of stimuli; the subclass determines the loader (src/stimuli)."""


@dataclass
class PeopleConfig:
    """Appearance of a fictional people."""

    hue: float = bounded_number(0, 1)  # mean hue of the skin
    crest: str = MISSING  # horns, ears or antennae


@dataclass
class AvatarsConfig(RoleConfig):
    """Drawn faces of fictional peoples.

    Attributes:
        sets: place -> occupation in its sets, whose pictures differ in the person; empty: no sets.
        ages: age -> how far hair is white and skin lined, 0 to 1; empty: no ages.
        places: group -> place in which more than half of its pictures are; other groups are anywhere.
        plain: share of each group's pictures that show no place, weather, material and number, on plain grey.
    """

    per_group: int = bounded_number(1)  # faces per group
    size: int = bounded_number(8, 4096)  # width and height in pixels
    seed: int = bounded_number(0, default=0)  # random seed of the drawings
    peoples: dict[str, PeopleConfig] = MISSING  # name of a people -> its appearance
    genders: dict[str, float] = MISSING  # gender -> mean length of the hair, 0 to 1
    hue_sd: float = bounded_number(0)  # SD of hue within a people
    hair_sd: float = bounded_number(0)  # SD of hair length within a gender
    per_person: int = bounded_number(1, default=1)  # pictures of each person
    sets: dict[str, str] = field(default_factory=dict)
    ages: dict[str, float] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    plain: float = bounded_number(0, 1, default=0.0)
    face_box: list[float] | None = None  # see `PhotographsConfig`


@dataclass
class PhotographsConfig(RoleConfig):
    """Fields of every dataset of photographed faces."""

    root: str = MISSING  # folder of the dataset
    per_group: int | None = bounded_number(1)  # faces to draw per group; null: all
    seed: int = bounded_number(0, default=0)  # random seed of the draw
    duplicates: str = one_of("stop", "drop", default="stop")  # identical files: stop or drop
    face_box: list[float] | None = None  # face's left, top, right, bottom in the centre square, if all alike


@dataclass
class FairFaceConfig(PhotographsConfig):
    """FairFace: a csv of labels and folders of pictures."""

    csv: str = MISSING  # file of the labels, in root
    races: dict[str, list[str]] = MISSING  # race in the group's name -> values of the csv
    genders: dict[str, list[str]] = MISSING  # gender in the group's name -> values of the csv
    ages: list[str] | None = None  # values of the csv's column; null: all


@dataclass
class AbstractConfig(RoleConfig):
    """Drawn abstract scenes."""

    count: int = bounded_number(1)  # number of scenes
    size: int = bounded_number(8, 4096)  # width and height in pixels
    noise: float = bounded_number(0)  # SD of each visual cue around the valence
    seed: int = bounded_number(0, default=0)  # random seed of the drawings


@dataclass
class OasisConfig(RoleConfig):
    """OASIS: a csv of ratings and a folder of pictures."""

    root: str = MISSING  # folder of the dataset
    csv: str = MISSING  # file of the ratings, in root
    pictures: str = MISSING  # folder of the pictures, in root
    lowest: float = MISSING  # lower end of the rating scale
    highest: float = MISSING  # upper end of the rating scale
    duplicates: str = one_of("stop", "drop", default="stop")  # identical files: stop or drop


@dataclass
class InventedWordsConfig(RoleConfig):
    """Words of an invented language, which mean the same as English words.

    Attributes:
        language: code of the language.
        letters: letter of an English word -> letter in its place; letters that are not listed stay.
    """

    language: str = MISSING
    letters: dict[str, str] = MISSING


@dataclass
class VaderConfig(RoleConfig):
    """Alphabetic words of the VADER lexicon.

    Attributes:
        translation: how words are written in the language of the job, if it is invented.
    """

    language: ClassVar[str] = "en"

    count: int | None = bounded_number(1)  # words to draw; null: all
    seed: int = bounded_number(0, default=0)  # random seed of the draw
    translation: InventedWordsConfig | None = None


@dataclass
class NrcVadConfig(RoleConfig):
    """NRC-VAD lexicon.

    Attributes:
        translation: name of the language whose translations are the words, as in the names of the files of
            the folder OneFilePerLanguage; English: the rated words themselves.
    """

    path: str = MISSING  # file of the lexicon, or its folder
    word: str | None = None  # column of the words; null: the only column of texts
    lowest: float = MISSING  # lower end of the rating scale: 0 in version 1, -1 in version 2
    highest: float = MISSING  # upper end of the rating scale
    translation: str = RATED_LANGUAGE


@dataclass
class TranslatedLabelsConfig(RoleConfig):
    """Labels in a language whose race words may agree with the gender words beside them.

    Attributes:
        language: code of the language.
        phrase: order of the words in a phrase, with `{race}` and `{gender}`.
        race_words: race -> words for it, in their base form.
        gender_words: gender -> words for it.
        classes: gender word -> grammatical class, where this is not its gender.
        forms: gender, or grammatical class -> race word -> its form beside such a gender word; beside others,
            race words have their base form.
        source: origin of the lists.
        review: `draft`, or `reviewed: NAME` of the speaker who reviewed the lists.
    """

    language: str = MISSING
    phrase: str = MISSING
    race_words: dict[str, list[str]] = MISSING
    gender_words: dict[str, list[str]] = MISSING
    classes: dict[str, str] = field(default_factory=dict)
    forms: dict[str, dict[str, str]] = field(default_factory=dict)
    source: str = MISSING
    review: str = "draft"


@dataclass
class LabelsConfig(RoleConfig):
    """Labels: all combinations of a race word and a gender word.

    Attributes:
        translation: labels of the same groups in the language of the job, which are used in place of these.
    """

    language: ClassVar[str] = "en"

    race_words: dict[str, list[str]] = MISSING  # race -> words for it
    gender_words: dict[str, list[str]] = MISSING  # gender -> words for it
    translation: TranslatedLabelsConfig | None = None


@dataclass
class AxisLabelsConfig(RoleConfig):
    """Labels: all combinations of a word of each of any number of axes, in this order."""

    language: ClassVar[str] = "en"

    words: dict[str, dict[str, list[str]]] = MISSING  # axis -> value in the group's name -> words for it


def list_axis_words(labels: LabelsConfig | AxisLabelsConfig) -> dict[str, dict[str, list[str]]]:
    """Return the words of labels: axis -> value in the group's name -> words."""
    if isinstance(labels, LabelsConfig):
        return {"race": labels.race_words, "gender": labels.gender_words}
    return labels.words


@dataclass
class CfdConfig(PhotographsConfig):
    """Chicago Face Database: race, gender and expression are in the file names."""

    pictures: list[str] = MISSING  # folders of pictures, in root
    norming: str | None = None  # csv of the norming data, in root, for the ages; null: ages unknown
    races: dict[str, list[str]] = MISSING  # race in the group's name -> letters of the file names
    genders: dict[str, list[str]] = MISSING  # gender in the group's name -> letters of the file names
    expressions: list[str] = MISSING  # letters of the file names


@dataclass
class UtkFaceConfig(PhotographsConfig):
    """UTKFace: age, gender and race are in the file names."""

    races: dict[str, list[str]] = MISSING  # race in the group's name -> codes of the file names
    genders: dict[str, list[str]] = MISSING  # gender in the group's name -> codes of the file names
    ages: list[int] | None = None  # youngest and oldest, both included; null: all


@dataclass
class FolderConfig(PhotographsConfig):
    """A folder of pictures and a csv of their groups."""

    csv: str = MISSING  # file of the groups: a path in root, or an absolute path
    file: str = MISSING  # column of the pictures' paths in root
    group: list[str] = MISSING  # columns whose values, joined by a blank, are the group's name


@dataclass
class PictureFoldersConfig(PhotographsConfig):
    """Folders of pictures, named after the groups."""

    groups: list[str] | None = None  # folders below root; null: all that have pictures


@dataclass
class AxisConfig:
    """Axis of a table of faces: an attribute by which faces are grouped."""

    column: str = MISSING  # column of the listing
    values: dict[str, list[Any]] | None = None  # value in the group's name -> texts of the column; null: all
    bins: dict[str, list[Any]] | None = None  # value in the group's name -> its lowest and highest number


@dataclass
class FaceTableConfig(PhotographsConfig):
    """Faces with any number of axes, and optionally persons and sets of matched pictures."""

    axes: dict[str, AxisConfig] = MISSING  # axis -> its column and values
    group: list[str] = MISSING  # axes whose values, joined by a blank, are the group's name
    person: str | None = None  # column of the people; null: each picture shows another person
    set: str | None = None  # column of the sets: pictures of a scene with different people; null: no sets


@dataclass
class ListingConfig(FaceTableConfig):
    """A csv or Parquet file that lists pictures and attributes of the people in them."""

    listing: str = MISSING  # the file: a path in root, or an absolute path
    file: str = MISSING  # column of the pictures' paths in root
    box: list[str] | None = None  # columns of the face's left, top, right and bottom edge in pixels


@dataclass
class FhibeConfig(FaceTableConfig):
    """FHIBE: a csv of self-descriptions in a folder of one version."""

    csv: str = MISSING  # file of the faces, in the folder of the version


@dataclass
class FacetConfig(FaceTableConfig):
    """FACET: a csv of people, each within a box of a picture."""

    csv: str = MISSING  # file of the people, in root
    pictures: list[str] = MISSING  # folders of the pictures, in root


@dataclass
class SispiConfig(FaceTableConfig):
    """SISPI: labels are in the names of the pictures."""

    pictures: str = MISSING  # tar or folder of the pictures, in root


@dataclass
class SocialCounterfactualsConfig(FaceTableConfig):
    """SocialCounterfactuals: Parquet files with pictures and attributes."""

    pictures: str = MISSING  # folder of the Parquet files, in root


@dataclass
class PairsConfig(FaceTableConfig):
    """PAIRS: folders of scenarios, with labels in the names of the pictures."""

    pictures: str = MISSING  # folder of the sections, in root
    sections: list[str] = MISSING  # folders of scenarios to load


@dataclass
class VisoGenderConfig(FaceTableConfig):
    """VisoGender: tables of addresses, and the pictures fetched from them."""

    tables: list[str] = MISSING  # tsv files, in root
    pictures: str = MISSING  # folder of the pictures, in root, named by IDX


# Datasets whose terms or authors allow evaluation only: no encoder may be trained on their pictures.
EVALUATION_ONLY: dict[type[RoleConfig], str] = {
    FhibeConfig: "FHIBE",
    FacetConfig: "FACET",
    SispiConfig: "SISPI",
    VisoGenderConfig: "VisoGender",
}


MORPH_PAIRS, MORPH_FAMILIES = "pairs", "families"


@dataclass
class MorphsConfig(RoleConfig):
    """Morphs of pairs of faces within a group."""

    parents: RoleConfig = MISSING  # faces to morph, from the config group `faces`
    morphs: str = one_of(MORPH_PAIRS, MORPH_FAMILIES, default=MORPH_PAIRS)  # families: see docs/data.md
    method: str = one_of("flow", "landmark", "stylegan2")  # see src/stimuli/morphs/methods.py
    per_group: int = bounded_number(1)  # morphs per group; with families, maximum faces per group
    size: int = bounded_number(16, 4096)  # width and height in pixels
    seed: int = bounded_number(0, default=0)  # random seed of the draw of pairs or families
    workers: int = bounded_number(0, default=0)  # number of processes; 0: one per core
    landmarks: str | None = None  # folder of landmark files, or a csv; required by method=landmark
    generator: str | None = None  # TorchScript file of a generator; required by method=stylegan2
    perceptual: str | None = None  # TorchScript file of a perceptual network; null: a pyramid of pixels
    steps: int = bounded_number(1, default=125)  # steps to project a parent, for method=stylegan2


@dataclass
class WarrinerConfig(RoleConfig):
    """Ratings of Warriner, Kuperman & Brysbaert 2013, or another csv of rated words."""

    language: ClassVar[str] = "en"

    path: str = MISSING  # csv of the ratings, or its folder
    word: str = MISSING  # column of the words
    valence: str = MISSING  # column of the ratings
    lowest: float = MISSING  # lower end of the rating scale
    highest: float = MISSING  # upper end of the rating scale


@dataclass
class NormsConfig(RoleConfig):
    """Words of any language with ratings of valence, in a table of text.

    Attributes:
        separator: what separates columns: comma, semicolon or tab.
        decimal_comma: whether numbers have a decimal comma.
        encoding: encoding of the file, as Python names it: utf-8, latin-1, cp1252, utf-16.
        drop: words that stand for none, such as a placeholder for unknown words.
        predicted: whether the ratings were predicted by a model instead of people.
    """

    path: str = MISSING  # the table
    language: str = MISSING  # code of the language of the words
    word: str = MISSING  # column of the words
    valence: str = MISSING  # column of the ratings
    low: float = MISSING  # lower end of the rating scale
    high: float = MISSING  # upper end of the rating scale
    separator: str = one_of("comma", "semicolon", "tab", default="comma")
    decimal_comma: bool = False
    encoding: str = "utf-8"
    drop: list[str] = field(default_factory=list)
    predicted: bool = False
    source: str = ""  # publication


@dataclass
class OtherLayoutConfig(RoleConfig):
    """Files in a layout with a loader defined elsewhere."""

    loader: str = MISSING  # loader as `module:attribute`
    options: dict[str, Any] = field(default_factory=dict)  # arguments of the loader
