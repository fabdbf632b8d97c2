"""A plugin of FiftyOne: an operator that labels a dataset from a few labels, and a panel that runs it."""

from __future__ import annotations

import fiftyone.operators as foo
from fiftyone.operators import types

from .labelling import CHECK, label_view

_FIELDS = {
    "embeddings": ("Field of embeddings", "embedding"),
    "labels": ("Field of labels", "ground_truth"),
    "predictions": ("Field for predictions", "marginshot"),
}


def _ask(inputs: types.Object) -> types.Object:
    for name, (words, usual) in _FIELDS.items():
        inputs.str(name, label=words, default=usual, required=True)
    inputs.float("target", label="Share of labels to be right", default=0.95, min=0.5, max=1.0)
    return inputs


def _options(given: dict) -> dict:
    options = {name: given.get(name) or usual for name, (_, usual) in _FIELDS.items()}
    return options | {"target": float(given.get("target") or 0.95)}


class LabelSamples(foo.Operator):
    """Labels the current view, and tags what to check."""

    @property
    def config(self) -> foo.OperatorConfig:
        """How it is listed."""
        return foo.OperatorConfig(
            name="label_samples", label="Label from a few labels", dynamic=False, allow_delegated_execution=True
        )

    def resolve_input(self, ctx: foo.ExecutionContext) -> types.Property:
        """The form."""
        return types.Property(_ask(types.Object()), view=types.View(label="Label from a few labels"))

    def execute(self, ctx: foo.ExecutionContext) -> dict:
        """Label, then show what changed."""
        view = ctx.view if ctx.view is not None else ctx.dataset.view()
        done = label_view(view, **_options(ctx.params))
        ctx.ops.reload_dataset()
        return {"summary": str(done), "n_to_check": done.n_to_check}

    def resolve_output(self, ctx: foo.ExecutionContext) -> types.Property:
        """The summary."""
        outputs = types.Object()
        outputs.str("summary", label="Done")
        return types.Property(outputs)


class MarginshotPanel(foo.Panel):
    """The same form beside the samples, with a button that shows what to check."""

    @property
    def config(self) -> foo.PanelOperatorConfig:
        """How it is listed."""
        return foo.PanelOperatorConfig(name="marginshot", label="marginshot", icon="label")

    def on_load(self, ctx: foo.ExecutionContext) -> None:
        """Nothing is done before somebody asks."""
        ctx.panel.state.summary = "Label a few samples of each class, then press Label."

    def on_label(self, ctx: foo.ExecutionContext) -> None:
        """Label the dataset from what it holds now."""
        state = ctx.panel.get_state() or {}
        try:
            done = label_view(ctx.dataset.view(), **_options(state.get("options") or {}))
        except ValueError as error:
            ctx.panel.state.summary = str(error)
            return
        ctx.panel.state.summary = str(done)
        ctx.ops.reload_dataset()

    def on_check(self, ctx: foo.ExecutionContext) -> None:
        """Show the samples to check."""
        ctx.ops.set_view(ctx.dataset.match_tags(CHECK))

    def render(self, ctx: foo.ExecutionContext) -> types.Property:
        """Form, summary and buttons."""
        panel = types.Object()
        panel.obj("options", view=types.ObjectView()).type = _ask(types.Object())
        panel.md(ctx.panel.state.summary or "", name="summary_words")
        panel.btn("label", label="Label", on_click=self.on_label)
        panel.btn("check", label="Show what to check", on_click=self.on_check)
        return types.Property(panel)


def register(plugin: foo.PluginContext) -> None:
    """Called by FiftyOne."""
    plugin.register(LabelSamples)
    plugin.register(MarginshotPanel)
