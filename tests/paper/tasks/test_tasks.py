from navi_paper.gold import PARTS
from navi_paper.tasks import TASKS


def test_tasks_have_names_of_their_own():
    assert len({task.name for task in TASKS}) == len(TASKS)


def test_tasks_need_parts_of_the_gold_that_there_are():
    assert all(set(task.needs) <= set(PARTS) for task in TASKS)


def test_every_task_for_all_encoders_measures_something_of_a_model(bench, navi_tables):
    for task in TASKS:
        if task.only is None:
            outcome = task.run(navi_tables, bench)
            assert outcome.measures
            assert all(isinstance(value, float) for value in outcome.measures.values())
