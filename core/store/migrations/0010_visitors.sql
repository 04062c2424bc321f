-- Who made a run or a variant, on a server where people sign in; empty for whoever was at the machine.

ALTER TABLE runs ADD COLUMN visitor VARCHAR DEFAULT '';
ALTER TABLE variants ADD COLUMN visitor VARCHAR DEFAULT '';
