"""Fine-tune the base model on train.jsonl."""

from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTConfig, SFTTrainer

BASE = "fallow/Fallow-2B-Base"
data = load_dataset("json", data_files="train.jsonl", split="train")
model = AutoModelForCausalLM.from_pretrained(BASE)
tokenizer = AutoTokenizer.from_pretrained(BASE)
config = SFTConfig(output_dir="work", num_train_epochs=2, per_device_train_batch_size=8, learning_rate=1e-5)
trainer = SFTTrainer(model=model, args=config, train_dataset=data, processing_class=tokenizer)
trainer.train()
trainer.save_model("final_model")
tokenizer.save_pretrained("final_model")
