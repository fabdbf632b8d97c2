"""Class names as examples and as beliefs: the name of a class, encoded as an item is, says what items are like.

Names are labelled rows, and once an item has a label also beliefs about the class of every item: the softmax of its
cosines with the names. The rows move with the clusters that the classifier finds, the beliefs do not. A class whose
first labels are corrections, which lie near other classes, so keeps its own cluster. The classifier trusts beliefs as
far as labels confirm them (`marginshot.model.beliefs`), whatever the rows weigh. Names alone are rows alone: there
the beliefs would say what the rows already say.

A name counts as one example while its class has none, so a set can be labelled from names alone. Beside k examples it
is one row of k + 1, and counts for less than one where the examples contradict it. The agreement of an example with its
name is the share of the other names that are less like it: 1 for a name that fits, ½ on average for one without a
meaning. The mean agreement a of a class's examples, shrunk towards that of all, gives the weight 2 (2a − 1), at most 1.

Corrections of wrong answers have an agreement of only 0.6 to 0.7 with names that are right, because what the names
answer well is not corrected. So agreement is pooled over all names, and a name is dropped only below weight 0.3. With
less pooling or a higher limit, corrections cost 20 points of accuracy on descriptions of software of 16 kinds. Pooling
has a cost where some names are wrong. With the names of half of CLINC150's classes exchanged, accuracy halves at one
example a class, and drops by 3 points at three. With all names exchanged, all are dropped at one example.

Beside a name of weight w an example counts for 1 − ⅔ w. Examples are often corrections, which lie near other classes by
selection. They may move the centre of their class into the cluster of another class: the two clusters then swap names.
This is rarer with the lower weight. It still happens, mostly where one correction contradicts a name so strongly that
the name is left out. With random examples the lower weight costs no accuracy.

A code (`c17`, `12`, a hash) names nothing and is never taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from marginshot.labelling.items.collection import Collection
from marginshot.labelling.items.embed import embed, printable
from marginshot.labelling.items.encoders import ItemEncoder, text_side
from marginshot.labelling.items.kinds import TEXT
from marginshot.labelling.items.store import Store
from marginshot.model.transforms import l2_normalize

Array = NDArray[np.float32]
Codes = NDArray[np.integer]

#: Words that number classes instead of naming them.
_NUMBERED = {
    "cat",
    "category",
    "class",
    "cls",
    "cluster",
    "group",
    "id",
    "intent",
    "item",
    "label",
    "no",
    "topic",
    "type",
}

_SHRINKAGE = 8.0  # Pseudo-count: examples that the mean agreement of all classes counts for beside those of a class.
_SURE = 2.0  # Slope of a name's weight in 2a − 1, which is 0 for a meaningless name.

# Factor of the cosines in the beliefs, before labels say how far to trust them. Chosen on questions of TREC. A trade:
# 5 is 2 points worse after the first page of corrections and 2 better after the seventh, 20 no better.
_SHARPNESS = 10.0

# Names of less weight are left out: even a row of little weight changes estimates from all labelled rows. All three
# were chosen on CLINC150's even-numbered intents and on descriptions of Debian packages by section, with names that are
# right, exchanged and half exchanged, and with random examples and corrections.
_LEAST_WEIGHT = 0.3


@dataclass(frozen=True)
class Names:
    """Embeddings of class names.

    Attributes
    ----------
    rows : ndarray of float32 of shape (n_names, n_features)
        One for each phrasing.
    classes : ndarray of int64 of shape (n_names,)
        Index of the class that each names.
    apart : bool
        Whether they come from another side of the encoder than the items, and lie apart from these.
    """

    rows: Array
    classes: NDArray[np.int64]
    apart: bool = False

    def among(self, X: NDArray[np.floating]) -> Names:
        """The names, moved to where the items ``X`` (n_rows, n_features) lie if they come from another encoder side.

        They are then centred on their own mean, scaled to the mean distance of the items from the mean of the items,
        and placed around that mean.
        """
        if not self.apart:
            return self
        mean = X.mean(axis=0, dtype=np.float64)
        directions = l2_normalize(self.rows - self.rows.mean(axis=0))
        rows = mean + np.linalg.norm(X - mean, axis=1).mean() * directions
        return Names(rows.astype(np.float32), self.classes)

    def weights(self, X: NDArray[np.floating], given: Codes) -> NDArray[np.float64]:
        """What each name counts for beside the examples, (n_names,); 0 for one to leave out.

        The phrasings of a class share its weight.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            Items.
        given : ndarray of int of shape (n_rows,)
            Class of each example, negative for all others.
        """
        n_phrasings = np.bincount(self.classes)
        examples = np.flatnonzero(np.isin(given, self.classes))
        each = 1.0 / n_phrasings[self.classes]
        if len(np.unique(self.classes)) < 2 or not len(examples):
            return each
        labels = given[examples]
        agreement = self._shares_beaten(X[examples] - X.mean(axis=0), labels)
        overall = (1.0 + agreement.sum()) / (1.0 + len(agreement))
        counts, sums = (np.bincount(labels, weights, len(n_phrasings)) for weights in (None, agreement))
        agreed = (_SHRINKAGE * overall + sums) / (_SHRINKAGE + counts)
        trust = np.minimum(_SURE * (2.0 * agreed - 1.0), 1.0)
        trust[trust < _LEAST_WEIGHT] = 0.0
        trust[counts == 0] = 1.0  # the name is all that is known of the class
        return np.asarray(trust[self.classes] * each)

    def likeness(self, rows: NDArray[np.floating]) -> NDArray[np.floating]:
        """Cosines (n_rows, n_named) of centred ``rows`` (n_rows, n_features) with the centred names.

        Phrasings of a class are averaged. The columns are the classes that have names, in ascending order.
        """
        named, place = np.unique(self.classes, return_inverse=True)
        means = np.stack([self.rows[place == c].mean(axis=0) for c in range(len(named))])
        return np.asarray(l2_normalize(rows) @ l2_normalize(means - means.mean(axis=0)).T)

    def beliefs(self, likeness: NDArray[np.floating], classes: Codes) -> NDArray[np.float64]:
        """What the names say about the class of each row, (n_rows, n_classes); each row has sum 1.

        Parameters
        ----------
        likeness : ndarray of shape (n_rows, n_named)
            As `likeness` returns it.
        classes : ndarray of int of shape (n_classes,)
            Ascending. One without a name is as likely as a name of mean likeness.
        """
        logits = np.repeat(likeness.mean(axis=1, keepdims=True, dtype=np.float64), len(classes), axis=1)
        logits[:, np.searchsorted(classes, np.unique(self.classes))] = likeness
        return np.asarray(softmax(_SHARPNESS * logits, axis=1))

    def _shares_beaten(self, rows: NDArray[np.floating], labels: Codes) -> NDArray[np.float64]:
        """Share of the other classes whose names are less like each of the centred rows than its own, (n_rows,)."""
        named, likeness = np.unique(self.classes), self.likeness(rows)
        own = np.take_along_axis(likeness, np.searchsorted(named, labels)[:, None], axis=1)
        return np.asarray((likeness < own).sum(axis=1) / (len(named) - 1))


def embed_names(
    classes: Sequence[str],
    encoder: ItemEncoder | None,
    store: Store | None,
    descriptions: Sequence[Sequence[str]] | None = None,
) -> Names | None:
    """Embed the class names that are words; None if no name is, or if the encoder does not read texts.

    Parameters
    ----------
    classes : sequence of str
        Class names.
    encoder : ItemEncoder or None
        What embedded the items.
    store : Store or None
        The cache of embeddings.
    descriptions : sequence of sequences of str, optional
        For each class, what stands for it instead of its name; empty where the name does.
    """
    side = None if encoder is None else text_side(encoder)
    phrasings = [phrasings_of(name, descriptions[c] if descriptions else ()) for c, name in enumerate(classes)]
    texts = tuple(printable(text) for own in phrasings for text in own)
    if side is None or not texts:
        return None
    labels = np.repeat(np.arange(len(classes)), [len(own) for own in phrasings])
    collection = Collection(TEXT, texts, texts, ("",) * len(texts), np.ones(len(texts), dtype=bool))
    rows = embed(collection, side, store).X
    return Names(rows, labels, apart=side is not encoder)


def phrasings_of(name: str, description: Sequence[str] = ()) -> tuple[str, ...]:
    """The texts that stand for a class: its description where there is one, else its name in words; none for a code.

    Examples
    --------
    >>> phrasings_of("card_arrival"), phrasings_of("lostCard"), phrasings_of("c17")
    (('card arrival',), ('lost card',), ())
    >>> phrasings_of("c17", ["a card that has not arrived"])
    ('a card that has not arrived',)
    """
    described = tuple(text.strip() for text in description if text.strip())
    if described:
        return described
    return () if is_code(name) else (in_words(name),)


def in_words(name: str) -> str:
    """A class name in words: no separators, no CamelCase, no number in front.

    Examples
    --------
    >>> in_words("002.Laysan_Albatross"), in_words("transferHTTPError"), in_words("what's up?")
    ('Laysan Albatross', 'transfer HTTP error', "what's up?")
    """
    spaced = re.sub(r"[\s_/\\|+.:;-]+", " ", name).strip()
    spaced = re.sub(r"^\d+ (?=\D)", "", spaced)
    if " " in spaced:
        return spaced
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", spaced).split(" ")
    return " ".join(part if part.isupper() or len(parts) == 1 else part.lower() for part in parts)


def is_code(name: str) -> bool:
    """Whether a class name has no meaning: a number, a letter, a hash, or a word that only numbers classes.

    Examples
    --------
    >>> [name for name in ("c17", "12", "label_3", "n01440764", "3f2a9bc1", "covid19", "猫", "TV") if is_code(name)]
    ['c17', '12', 'label_3', 'n01440764', '3f2a9bc1']
    """
    return not any(_is_word(word) for word in re.findall(r"\w+", in_words(name)))


def _is_word(word: str) -> bool:
    letters = max(re.findall(r"[^\W\d_]+", word), key=len, default="")
    if not letters.isascii():
        return True
    has_digits = any(character.isdigit() for character in word)
    if has_digits and re.fullmatch(r"[0-9a-fA-F]{6,}", word):
        return False
    return len(letters) >= (4 if has_digits else 2) and letters.lower() not in _NUMBERED
