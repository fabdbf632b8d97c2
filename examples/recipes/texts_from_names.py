"""
Texts from class names alone
============================

The name of a class is a text too. Encoded as the texts are, it is an example of its class, so nothing has to be
labelled by hand. The encoder of the extra ``texts`` comes with its weights and needs neither a
network nor PyTorch.
"""

from marginshot.labelling import label_texts

texts = [
    "I was charged twice for the same month",
    "Why did my monthly fee go up without notice?",
    "The invoice shows the wrong VAT number",
    "The package went to my old address",
    "How long does express shipping take?",
    "My parcel was supposed to arrive on Tuesday and is still not here",
    "Error 500 whenever I press save",
    "After the update the screen stays black",
    "The app crashes when I open the second tab",
]
result = label_texts(texts, classes=["billing", "delivery", "bug"], cache=False)
for text, label, probability in zip(texts, result.labels, result.probabilities, strict=True):
    print(f"{label:8}  {probability:4.0%}  {text}")

# %%
# A description says more than a name where the name is vague. Labels may be given as well, as far as they are known.

described = label_texts(
    texts,
    labels=["money", *[""] * 8],
    classes={"money": "payments, invoices, prices", "post": "parcels and their delivery", "fault": "software errors"},
    cache=False,
)
print(described.labels)

# %%
# For a file it is one command:
# ``marginshot label tickets.csv --text body --classes billing,delivery,bug --out tickets-labelled.csv``.
