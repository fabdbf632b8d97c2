"""What `marginshot.evaluation` offers."""

import marginshot.evaluation as evaluation


def test_every_public_name_is_found_and_evaluates():
    for name in evaluation.__all__:
        assert getattr(evaluation, name).__name__ == name
        assert name in dir(evaluation)
    run = evaluation.Run(
        banks=[evaluation.load_features("digits")],
        methods={"simpleshot": evaluation.get_method("simpleshot"), "fs-mmc": evaluation.get_method("fs-mmc")},
        settings=[evaluation.TaskSettings(n_way=3, n_shot=1)],
        n_tasks=4,
    )
    first, second = evaluation.evaluate(run).results
    mean, half = evaluation.paired_difference(second.per_task, first.per_task)
    assert abs(mean - (second.accuracy - first.accuracy)) < 1e-12
    assert half >= 0
