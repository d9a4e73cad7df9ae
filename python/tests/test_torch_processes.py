"""polyconv.torch in several threads, several processes and forked ones."""
# SPDX-License-Identifier: Apache-2.0

import threading

import pytest

torch = pytest.importorskip("torch")

import polyconv.torch as face  # noqa: E402
from torch_models import alone, close, model, of_rounded  # noqa: E402, F401

nn = torch.nn


def test_threads():
    net, xs = model().eval(), [torch.randn(2, 3, 12, 12) for _ in range(6)]
    wrong = []
    with torch.no_grad():
        wanted = [net(x) for x in xs]

        def work(i):
            with torch.no_grad():
                for _ in range(10):
                    if (net(xs[i]) - wanted[i]).abs().max() > 1e-5:
                        wrong.append(i)

        with face.enable():
            threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert not wrong


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_that_change_while_other_threads_run(dtype):
    """Who runs meanwhile gets what a convolution with the old or the new weights gives; who comes after, the new ones."""
    layer, x = nn.Conv2d(32, 32, 3), torch.randn(1, 32, 24, 24)
    stop, failed = threading.Event(), []

    def infer():
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            return layer(x)

    def work():
        while not stop.is_set():
            try:
                assert bool(infer().isfinite().all())
            except Exception as error:
                failed.append(error)
                return

    with face.enable():
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(30):
            with torch.no_grad():
                layer.weight.mul_(-1)
            infer()
        stop.set()
        for thread in threads:
            thread.join()
        ours = infer()
    assert not failed, failed
    close([ours.float()], [of_rounded(layer, x, dtype)], 1e-5 if dtype == torch.float32 else 1e-2)


def _train_in_processes(rank, folder, on):
    """One of two processes that train a model together; leaves its parameters in a file."""
    import torch.distributed as distributed

    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet_{on}", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(model())
    if on:
        face.enable()
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(2, 3, 12, 12, generator=generator)).square().mean().backward()
        optimizer.step()
    if on:
        assert face.cache_info().fallen_forward == 0 and any(row.calls for row in face.report())
    torch.save([each.detach() for each in net.parameters()], f"{folder}/{rank}_{on}")
    distributed.destroy_process_group()


def test_two_processes_train_one_model(tmp_path):
    """DistributedDataParallel over gloo: gradients are reduced as without polyconv, and both ranks have the same weights."""
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    for on in (False, True):
        torch.multiprocessing.spawn(_train_in_processes, (str(tmp_path), on), nprocs=2)
    theirs, ours, other = (torch.load(tmp_path / name) for name in ("0_False", "0_True", "1_True"))
    close(ours, theirs)
    assert all(torch.equal(a, b) for a, b in zip(ours, other))


def test_forked_loaders():
    """Workers of a DataLoader are forks of a process that has threads of ours; they go on convolving."""
    layer = nn.Conv2d(3, 8, 3)

    class Filtered(torch.utils.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            with torch.no_grad():
                return layer(torch.full((1, 3, 16, 16), float(i)))[0]

    with face.enable():
        wanted = [Filtered()[i] for i in range(6)]
        loader = torch.utils.data.DataLoader(Filtered(), batch_size=1, num_workers=2, multiprocessing_context="fork")
        for one, want in zip(loader, wanted):
            assert torch.allclose(one[0], want, atol=1e-5)
