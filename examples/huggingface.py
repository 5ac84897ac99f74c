"""A model of the transformers library, with random weights (nothing is downloaded).

python -m aotdyn run --package transformers.models.bert examples/huggingface.py
"""

import torch
from transformers import BertConfig, BertForSequenceClassification


def build() -> BertForSequenceClassification:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=1000,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=64,
        num_labels=3,
    )
    return BertForSequenceClassification(config).eval()


@torch.no_grad()
def classify(model: BertForSequenceClassification, tokens: torch.Tensor) -> torch.Tensor:
    """Probabilities of the three labels, (batch, 3)."""
    return model(tokens, attention_mask=(tokens != 0).long()).logits.softmax(-1)


def main() -> None:
    model = build()
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        tokens = torch.randint(1, 1000, (4, 16), generator=generator)
        tokens[1, 10:] = 0  # padding
        for row in classify(model, tokens).tolist():
            print(" ".join(f"{share:.3f}" for share in row))


if __name__ == "__main__":
    main()
