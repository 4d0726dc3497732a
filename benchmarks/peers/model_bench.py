"""A run of a benchmark of models: its folder, its tokens, and a process with a log for each piece of work."""

import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokens import first_lines

from peers.model_text import special_ids

HOME = Path(__file__).parent.parent.absolute()


@dataclass
class ModelBench:
    """One run.

    Attributes:
        data: the folder of texts, with wiki/train.txt and wiki/valid.txt.
        work: where everything goes that is made.
        threads: of every process.
        limit_s: a process that takes longer is killed.
        prepared: the tokenizer's size and its special ids, for every process.
    """

    data: Path
    work: Path
    threads: int
    limit_s: float
    prepared: dict[str, Any] = field(default_factory=dict)

    def process(self, name: str, command: list[str]) -> tuple[str, int]:
        """Run a command with its messages in logs/NAME.txt; what it wrote on stdout, and its peak memory in bytes.

        Raises:
            RuntimeError: it failed, or took too long; with the last line it wrote.
        """
        (self.work / "logs").mkdir(parents=True, exist_ok=True)
        log, said = self.work / "logs" / f"{name}.txt", self.work / "logs" / f"{name}.out"
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "true", "PYTHONUNBUFFERED": "1"}
        with log.open("w") as messages, said.open("w") as out:
            child = subprocess.Popen(command, stdout=out, stderr=messages, env=environment, cwd=HOME)
            watch = threading.Timer(self.limit_s, child.kill)
            watch.start()
            try:
                _, status, usage = os.wait4(child.pid, 0)
            except BaseException:
                child.kill()
                raise
            finally:
                watch.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
            raise RuntimeError(f"{name}: exit code {child.returncode}: {lines[-1].strip() if lines else 'no message'}")
        return said.read_text(), usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    def child(self, name: str, work: str, **task: Any) -> dict[str, Any]:
        """One task of peers/model_measure.py."""
        logs = self.work / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        task_file, result = logs / f"{name}.task.json", logs / f"{name}.result.json"
        result.unlink(missing_ok=True)
        task_file.write_text(json.dumps({"work": work, "result": str(result), **task}))
        _, peak = self.process(name, [sys.executable, "-m", "peers.model_measure", str(task_file)])
        return {"peak_memory_bytes": peak, **json.loads(result.read_text())}

    def wordpipe(self, name: str, *words: object) -> dict[str, Any]:
        """A command of ours; the object that it prints."""
        said, peak = self.process(name, [sys.executable, "-m", "wordpipe", *map(str, words), "--json"])
        return {"peak_memory_bytes": peak, **json.loads(said)}

    def prepare_tokens(self, mb: float, vocab_size: int, algorithm: str, *, valid: bool) -> None:
        """Ingest and tokenize the first MB of the training text, and the held-out one with the same tokenizer.

        Args:
            mb: of the training text, in whole lines.
            vocab_size: of the tokenizer, which is trained on it.
            algorithm: of the tokenizer.
            valid: whether the held-out text is wanted.
        """
        self.work.mkdir(parents=True, exist_ok=True)
        same = {"mb": mb, "vocab_size": vocab_size, "algorithm": algorithm}
        done = self.work / "tokens.json"
        if not done.exists() or json.loads(done.read_text()) != same:
            text = self.work / "text.txt"
            first_lines(self.data / "wiki" / "train.txt", text, round(mb * 1e6))
            self._tokenize(text, "tokens", "--algorithm", algorithm, "--vocab-size", vocab_size)
            text.unlink()
            if valid:
                tokenizer = self.work / "tokens" / "tokenizer.json"
                self._tokenize(self.data / "wiki" / "valid.txt", "valid-tokens", "--tokenizer", tokenizer)
            done.write_text(json.dumps(same))
        special, n_tokens = special_ids(self.work / "tokens")
        self.prepared = {"special": special, "n_tokens": n_tokens}

    def _tokenize(self, text: Path, name: str, *options: object) -> None:
        corpus = self.work / "corpus"
        self.wordpipe("ingest", "ingest", text, "-o", corpus, "--documents", "block", "--valid", 0)
        self.wordpipe("tokenize", "tokenize", corpus, "-o", self.work / name, *options)
        shutil.rmtree(corpus)
