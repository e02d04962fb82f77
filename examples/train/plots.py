"""Six plots. Each is a list of beats; each beat is a list of ways to say it; an empty beat ends a paragraph.

Fields in braces are filled in by `stories.py`. The name is repeated often on purpose: a model of a few million parameters keeps its
people apart more easily that way, and a reader sees at once whether it does.
"""

OPENINGS = [
    "Once upon a time there was {a_trait_kind} named {hero} who lived {place}.",
    "Once upon a time, {place}, there lived {a_trait_kind} called {hero}.",
    "There once was {a_trait_kind} whose name was {hero}. {He} lived {place}.",
    "{hero} was {a_trait_kind} who lived {place}.",
    "Long ago, {place}, there lived {a_trait_kind} named {hero}.",
    "Far away, {place}, lived {hero} the {trait} {kind}.",
]

DAILY_LIFE = [
    "Every day {hero} shared {food} with {his} friend {friend}.",
    "{He} had a good friend called {friend}, and the two were never apart.",
    "{His} best friend was {friend}, who lived next door.",
    "{hero} and {friend} liked to sit together and eat {food}.",
    "Everyone knew {hero}, for {he} was very {trait}.",
    "In the evening {hero} told {friend} about the day.",
]

TALK = [
    '"{saying}," said {hero}.',
    '"{saying}," said {friend}.',
    '"What shall we do?" asked {friend}. "{saying}," said {hero}.',
    '{hero} thought for a long time. Then {he} said, "{saying}."',
    '"{saying}," {hero} said in a soft voice, and {friend} nodded.',
]

FEASTS = [
    "In the evening they all sat down to {food}, and {hero} felt {feeling}.",
    "{hero} and {friend} ate {food} and laughed until the stars came out.",
    "{friend} brought {food}, and everyone danced.",
    "When it was over, {hero} felt {feeling}.",
    "That night {hero} slept well and dreamed of {food}.",
]

MORALS = [
    "And so {hero} learned {lesson}.",
    "That is how {hero} learned {lesson}.",
    "{friend} never forgot {lesson}.",
    "And if you go there today, people will tell you {lesson}.",
    "From that day on {hero} knew {lesson}.",
]

TROUBLE = [
    OPENINGS,
    DAILY_LIFE,
    [],
    ["{when} {event}.", "{when}, when nobody expected it, {event}.", "But {when_lower} {event}."],
    [
        "Everyone was afraid, but {hero} stayed calm.",
        "{hero} was worried, and so was {friend}.",
        "Nobody knew what to do.",
        "{friend} began to cry, and {hero} took {his} friend by the hand.",
    ],
    TALK,
    [
        "So {hero} went to ask {helper}, who knew many things.",
        "On the way {hero} met {helper}.",
        "Just then {helper} came along.",
        "{hero} packed {a_thing} and walked until {he} met {helper}.",
    ],
    [
        '"{saying}," said {the_helper} with a smile.',
        "{The_helper} looked at {hero} and gave {him} {a_thing}.",
        '"Take this {thing}," said {the_helper}. "You will need it."',
        "Together they ate {food} and made a plan.",
    ],
    [],
    [
        "Then {hero} {fix}.",
        "With the help of {friend}, {hero} {fix}.",
        "The next morning {hero} {fix}.",
        "It was not easy, but at last {hero} {fix}.",
    ],
    [
        "It took three days and three nights.",
        "{friend} helped from morning to night.",
        "All the neighbors came to see it.",
        "Everyone thanked {hero}.",
        '"You did it!" cried {friend}.',
    ],
    FEASTS,
    MORALS,
]

LOST = [
    OPENINGS,
    [
        "{hero} had {a_thing} and loved it more than anything.",
        "{His} greatest treasure was {a_thing}.",
        "{He} always carried {a_thing}, a gift from {his} friend {friend}.",
    ],
    [],
    [
        "{when} the {thing} was gone.",
        "But {when_lower} {hero} could not find the {thing}.",
        "{when} {hero} woke up and the {thing} was not there.",
    ],
    [
        "{hero} looked under the bed and behind the door.",
        "{hero} looked everywhere, but there was no {thing}.",
        "{hero} sat down on the steps and cried a little.",
    ],
    ['"Where did you see the {thing} last?" asked {friend}.', '"I will help you to look," said {friend}.', *TALK],
    [
        "They asked {helper}, who knew nothing about it.",
        "They asked {helper}, but it was no help.",
        "On the road they met {helper}, who pointed to the {direction}.",
    ],
    [],
    [
        "At last {hero} found the {thing} {hiding}.",
        "And there, {hiding}, lay the {thing}.",
        "{friend} saw something shine. The {thing} was {hiding}!",
    ],
    [
        '"There it is!" cried {friend}.',
        "{hero} laughed and held the {thing} tight.",
        "{hero} thanked {friend} a hundred times.",
        "{hero} let {friend} keep the {thing} for a day.",
    ],
    FEASTS,
    MORALS,
]

SKILL = [
    OPENINGS,
    [
        "{hero} wanted to learn {verb} more than anything.",
        "{His} greatest wish was {verb}.",
        'All day long {hero} thought, "I want to learn {verb}."',
    ],
    [],
    [
        "{when} {hero} tried for the first time. {failure}.",
        "{when} {hero} began. {failure}.",
        "The first try went badly. {failure}.",
    ],
    [
        "{friend} laughed, but not in an unkind way.",
        "{hero} was sad and wanted to stop.",
        "The neighbors shook their heads.",
        '"I will never learn {verb}," said {hero}.',
    ],
    TALK,
    ["{helper_cap} saw it and stopped.", "Then {helper} came by and watched.", "{hero} asked {helper} for help."],
    [
        '"Do it slowly," said {the_helper}. "{saying}."',
        "{The_helper} showed {hero} how to begin.",
        '"{saying}," said {the_helper}, and they began again.',
    ],
    [],
    [
        "{hero} practiced every day, in sun and in rain.",
        "{hero} tried ten times, and then ten times more.",
        "Week after week {hero} practiced.",
    ],
    ["And one day {success}.", "Then, all at once, {success}.", "In the end {success}."],
    [
        '"Now teach me," said {friend}.',
        "{friend} clapped and clapped.",
        "{hero} felt {feeling}.",
        "After that, {hero} taught {friend} {verb} as well.",
    ],
    MORALS,
]

GUEST = [
    OPENINGS,
    DAILY_LIFE,
    [],
    [
        "{when} {guest} knocked at the door.",
        "{when} {guest} stood in front of the house.",
        "{when} {hero} found {guest} by the road.",
    ],
    [
        '"May I come in?" asked {the_guest}.',
        '"I am cold and hungry," said {the_guest}.',
        '"Do you have a bed for one night?" asked {the_guest}.',
    ],
    [
        "{friend} was afraid, but {hero} opened the door wide.",
        '"Come in and sit by the fire," said {hero}.',
        "{hero} had only a little, but {he} shared it.",
    ],
    [
        "{hero} gave {the_guest} {food} and a warm place to sleep.",
        "They ate {food} and talked all night.",
        "{hero} made {food}, and {the_guest} told a long story.",
    ],
    [],
    [
        "In the morning {the_guest} was gone, but on the table lay {a_thing}.",
        "Before leaving, {the_guest} gave {hero} {a_thing}.",
        '"Keep this {thing}," said {the_guest}. "It will bring you luck."',
    ],
    [
        "The {thing} shone in the sun.",
        "{hero} showed the {thing} to {friend}.",
        "{hero} kept the {thing} for the rest of {his} life.",
        "Years later {hero} still told the story of the {thing}.",
    ],
    [
        "And {the_guest} came back every year.",
        "After that, the door of {hero} was never locked.",
        "{hero} felt {feeling}.",
    ],
    MORALS,
]

QUARREL = [
    OPENINGS,
    [
        "{His} best friend was {friend}, who lived next door.",
        "{He} had one good friend, and that was {friend}.",
        "{hero} and {friend} did everything together.",
    ],
    [],
    [
        "{when} they found {a_thing} in the grass.",
        "{when} {helper} gave them {a_thing}.",
        "{when} they saw {a_thing} {hiding}.",
    ],
    [
        '"The {thing} is mine!" cried {hero}. "No, it is mine!" cried {friend}.',
        'Both of them wanted the {thing}. "I saw it first," said {friend}.',
        '"Give it to me," said {hero}. "Never!" said {friend}.',
    ],
    [
        "They did not speak for three days.",
        "{friend} went home and shut the door.",
        "{hero} took the {thing} home, but it gave {him} no joy.",
    ],
    [
        "It was very quiet, and {hero} felt alone.",
        "Even {food} tasted of nothing.",
        "{hero} could not sleep that night.",
    ],
    [],
    [
        '"I am sorry," said {hero}. "You may have the {thing}."',
        '{hero} knocked at the door of {friend}. "I am sorry," {he} said.',
        '"A {thing} cannot laugh," thought {hero}. "A friend can."',
    ],
    [
        '"Let us share it," said {friend}.',
        '"I am sorry too," said {friend}, and smiled.',
        '"I missed you," said {friend}.',
    ],
    [
        "From then on the {thing} stayed one week with {hero} and one week with {friend}.",
        "They gave the {thing} to {helper}, who needed it more.",
        "They put the {thing} on the wall, where both could see it.",
    ],
    FEASTS,
    MORALS,
]

JOURNEY = [
    OPENINGS,
    [
        "{hero} wanted to see {goal}.",
        "Every night {hero} dreamed of {goal}.",
        '"One day I will go to {goal}," {hero} told {friend}.',
    ],
    [],
    [
        "{when} {hero} packed {food} and {a_thing} and set out.",
        "{when} {hero} and {friend} set out with {a_thing}.",
        "{when} {hero} said goodbye and took only {a_thing}.",
    ],
    [
        "The road was long, and {hero} walked for many days.",
        "They walked past farms and forests.",
        "At night {hero} slept under the stars.",
    ],
    ["On the third day {he} met {helper}.", "At a crossroads sat {helper}.", "Soon {helper} joined them."],
    [
        '"How far is it to {goal}?" asked {hero}. "{saying}," said {the_helper}.',
        '"Go to the {direction}," said {the_helper}.',
        '"{saying}," said {the_helper}, and gave {him} {food}.',
    ],
    [],
    [
        "Then {hero} came to {obstacle}.",
        "But the way was blocked by {obstacle}.",
        "All at once there was {obstacle} in front of {him}.",
    ],
    [
        "{hero} was not afraid and {crossing}.",
        "{hero} took a deep breath and {crossing}.",
        "{hero} sat down to think. Then {he} {crossing}.",
    ],
    ["And there it was: {sight}.", "At last {hero} saw {goal}: {sight}.", "On the other side {hero} found {sight}."],
    [
        "{hero} stood still for a long time and felt {feeling}.",
        '"It is even more beautiful than in my dreams," said {hero}.',
        "{hero} left the {thing} there as a gift.",
        "When {hero} came home, {friend} wanted to hear everything.",
    ],
    MORALS,
]
