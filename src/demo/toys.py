"""Train the small encoders with Lightning on the captions of a dataset."""

from typing import Any

import lightning
import numpy as np
import open_clip
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from src.configs import ToyConfig


def build(config: ToyConfig, vocab_size: int) -> Any:
    """Build an untrained `open_clip.model.CLIP` whose towers have the same width and depth.

    The same seed gives the same weights.
    """
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg

    size: dict[str, Any] = {"layers": config.layers, "width": config.width}
    patches: dict[str, Any] = {"patch_size": config.patch_size, "image_size": config.image_size}
    # Averaged patches learn in half the steps that a class token needs.
    vision = CLIPVisionCfg(head_width=config.width // config.heads, pool_type="avg", **patches, **size)
    text = CLIPTextCfg(
        context_length=config.context_length, vocab_size=vocab_size, heads=config.heads, **size
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return CLIP(config.embed_dim, vision, text, output_dict=False)


def train(
    config: ToyConfig,
    network: Any,
    pixels: Tensor,
    tokens: Tensor,
    pairs: np.ndarray,
    trainer: lightning.Trainer,
) -> None:
    """Train a toy in place with CLIP's contrastive loss and AdamW on a one-cycle schedule, for one epoch.

    Args:
        config: config of the toy.
        network: wrapper of an `open_clip.model.CLIP` with `encode_images` and `encode_texts`.
        pixels: preprocessed pictures, float32 [P, 3, H, W].
        tokens: tokens of the texts, [T, context].
        pairs: indices of the picture and the text of each training pair, in order, [steps * batch, 2].
        trainer: Lightning's trainer.
    """
    loader = DataLoader(_Batches(pixels, tokens, pairs, config.pairs), batch_size=None)
    network.train()
    trainer.fit(_Contrastive(network, config.learning_rate, steps=len(pairs) // config.pairs), loader)
    network.eval()


class _Batches(Dataset[Any]):
    """Dataset of whole batches; collating single pairs would take as long as the training steps."""

    def __init__(self, pixels: Tensor, tokens: Tensor, pairs: np.ndarray, size: int) -> None:
        self.pixels, self.tokens = pixels, tokens
        self.batches = torch.from_numpy(pairs[: len(pairs) // size * size]).reshape(-1, size, 2)

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        picture, text = self.batches[index].T
        return self.pixels[picture], self.tokens[text]


class _Contrastive(lightning.LightningModule):
    """Training of a toy with CLIP's contrastive loss."""

    def __init__(self, network: Any, learning_rate: float, steps: int) -> None:
        super().__init__()
        self.network, self.learning_rate, self.steps = network, learning_rate, steps
        self.loss = open_clip.ClipLoss()

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        images, texts = batch
        vectors = self.network.encode_images(images), self.network.encode_texts(texts)
        loss: Tensor = self.loss(*vectors, self.network.model.logit_scale.exp())
        self.log("loss", loss, prog_bar=True, batch_size=len(images))
        return loss

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), self.learning_rate, weight_decay=0.1, fused=True)
        # A tenth of 10 steps would end at step 0, and torch divides by the last step of the warm-up.
        warm_up = 0.2 if self.steps == 10 else 0.1
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, self.learning_rate, total_steps=self.steps, pct_start=warm_up
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}
