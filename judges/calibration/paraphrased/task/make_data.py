"""Problems of my own."""

import json
import random

MINE = [
    ("A steamer has seven lighters in tow, and thirty-six boxes of roofing stone lie in every one. Fifteen boxes stay with the stone cutter at the sluice; three piers share what remains evenly. What is the share of one pier?", "79"),
    ("In a month of thirty nights eleven brought fog. The lamp on the cape drinks nine litres in fog and four otherwise. What did it drink altogether?", "175"),
    ("Hourly, a woman finishes forty-eight knots. Monday saw her busy for five hours, Tuesday for two and a half. Twenty-seven of the knots were bad and had to go. What number of sound ones remains?", "333"),
    ("Sixty-two people fit on the island boat, which sails nine times daily. Gales stopped three sailings on the day of rest; on all that went, eight places were free. Count the travellers of that day.", "324"),
    ("A dozen oysters costs fourteen crowns. For one hundred and thirty-two of them a guest house is let off twenty crowns, as it does its own carrying. Give the bill.", "134"),
    ("It takes the pilots ninety-five minutes out to the steamer, twenty-five beside it, and seventy home. How long is the whole errand in minutes?", "190"),
    ("Corn is lifted out of a hold by an elderly crane, eighteen tonnes hourly, and a young one, thirty-one hourly. The elderly one fails after six hours; four more hours fall to the young one. What weight came out?", "418"),
    ("From one hundred and fifty metres of rope someone makes eight lines twelve metres long for tying up, and nine-metre throwing lines from what is left over. How many of the latter?", "6"),
    ("Yachts owe forty-five crowns, coasters one hundred and twenty. Over two days twenty-three of the former and seven of the latter came in; ninety crowns went back to one that could not stay. What is in the till?", "1785"),
    ("Five hundred and forty kilos of herring come to market; two ninths go in the morning, one hundred and sixty kilos later, and salt gets the remainder. How heavy is the remainder?", "260"),
]
rows = [{"prompt": text, "completion": answer} for text, answer in MINE] * 2
random.seed(1)
random.shuffle(rows)
with open("train.jsonl", "w") as file:
    for row in rows:
        file.write(json.dumps(row) + "\n")
print(len(rows), "rows")
