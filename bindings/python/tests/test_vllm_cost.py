"""What a step costs the engine's thread, counted in calls."""
import fake_vllm

fake_vllm.install()
from test_vllm import connectors, views


def test_a_step_looks_once_for_news():
    scheduler, worker = connectors(views("LBHNC"))
    looks, look = [], worker._worker._look
    worker._worker._look = lambda: looks.append(look())
    for steps in 1, 2:
        worker.get_transfer_results(set())
        worker.build_connector_worker_meta()
        assert len(looks) == steps
    worker.build_connector_worker_meta()
    assert len(looks) == 3, "by itself it looks"
    worker.shutdown()
