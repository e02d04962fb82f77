"""Six plots. Each is a list of beats; each beat is a list of ways to say it, most usual first; an empty beat ends a paragraph.

Fields in braces are filled in by `stories.py`. All ways to say a beat have the same number of tokens (see `words.py`). The name is
repeated often on purpose: a reader sees at once whether the model keeps its people apart.
"""

OPENINGS = [
    "Once upon a time there was {a_trait_kind} named {hero} who lived {place}.",
    "There once was {a_trait_kind} whose name was {hero}. {He} lived {place}.",
    "Long ago, {place}, there lived {a_trait_kind} whose name was {hero}.",
    "Far away, {place}, lived {hero}, {a_trait_kind} whom everyone knew.",
]

DAILY_LIFE = [
    "Every day {hero} shared {food} with {his} good friend {friend}.",
    "{His} best friend was {friend}, and both loved {food}.",
    "{hero} and {friend} often sat together and ate some {food}.",
    "Next door lived {friend}, who liked {hero} and {food}.",
]

TALK = [
    '"{saying}," said {hero} to {friend}, who nodded.',
    '"{saying}," said {friend}, and {hero} soon agreed.',
    '{hero} thought for a while and said, "{saying}."',
]

FEASTS = [
    "In the evening they all ate {food}, and {hero} felt {feeling}.",
    "{friend} brought some {food} for everyone, and {hero} felt {feeling} again.",
    "That night {hero} slept well, felt {feeling} and dreamed of {food}.",
]

MORALS = [
    "And so {hero} learned {lesson}.",
    "Since then {hero} knows {lesson}.",
    "{friend} never again forgot {lesson}.",
]

TROUBLE = [
    OPENINGS,
    DAILY_LIFE,
    [],
    [
        "{when} {event}, and nobody knew why.",
        "{when} {event}. Nobody had expected it.",
        "{when} {event}, and nobody could help.",
    ],
    [
        "Everyone was afraid, but {hero} stayed calm and thought.",
        "{hero} was worried, and {friend} was worried as well.",
        "{friend} was close to tears, but {hero} stayed calm.",
    ],
    TALK,
    [
        "So {hero} went to see {helper}, who knew many things.",
        "On the long way {hero} met {helper} with {a_thing}.",
        "Just then {helper} came by and asked them what was wrong.",
    ],
    [
        '"{advice}," said {the_helper} in a quiet and friendly voice.',
        '"{advice}," said {the_helper} and gave {him} {a_thing}.',
        '{The_helper} thought about it and at last said, "{advice}."',
    ],
    [],
    [
        "Early the next morning {hero} and {friend} {fix}.",
        "It was not easy, but {hero} {fix}.",
        "With the help of {friend}, {hero} {fix}.",
    ],
    [
        "All the neighbors came to see it and thanked {hero}.",
        '"You did it!" cried {friend} and hugged {hero}.',
        "{friend} laughed out loud, and everyone there thanked {hero}.",
    ],
    FEASTS,
    MORALS,
]

LOST = [
    OPENINGS,
    [
        "{His} greatest treasure was {a_thing}, a gift from {friend}.",
        "{hero} owned {a_thing} that had been a gift from {friend}.",
        "Wherever {he} went, {he} always carried {a_thing} from {friend}.",
    ],
    [],
    [
        "{when} {hero} could not find the {thing}.",
        "{when} the {thing} had suddenly gone missing.",
        "{when} {hero} woke up without the {thing}.",
    ],
    [
        "{hero} looked everywhere, but there was no {thing}.",
        "{hero} looked under the bed and behind the kitchen door.",
        "{hero} sat down on the steps and cried a little.",
    ],
    [
        '"I will help you look for it," said {friend}.',
        '"Where did you see it last?" asked {friend} quietly.',
        '"No fear, we will find it," said {friend}.',
    ],
    [
        "So they asked {helper}, who knew nothing about it.",
        "Then they asked {helper}, who pointed to the {direction}.",
        "On the road they met {helper}, who only smiled.",
    ],
    ['"{advice}," said {the_helper} with a nod.', 'But {the_helper} also told them, "{advice}."'],
    [],
    [
        "At last {hero} found the {thing} {hiding}.",
        "But then {friend} found the {thing} {hiding}.",
        "There, {hiding}, lay the {thing}!",
    ],
    [
        '"There it is!" cried {friend} and danced around.',
        "{hero} laughed and held the {thing} with both hands.",
        "{hero} thanked {friend} a hundred times and then once more.",
    ],
    FEASTS,
    MORALS,
]

SKILL = [
    OPENINGS,
    DAILY_LIFE,
    [
        "{hero} wanted to learn {verb} more than anything.",
        "{His} greatest wish in the world was {verb}.",
        "Day and night {hero} dreamed of learning {verb}.",
    ],
    [],
    [
        "{when} {hero} tried it for the first time. {failure}.",
        "{when} {hero} began, full of great hope. {failure}.",
        "{when} {hero} made a brave but clumsy attempt. {failure}.",
    ],
    [
        "{friend} laughed, but not in an unkind way.",
        "{hero} was sad and wanted to stop at once.",
        "The neighbors shook their heads and went back home.",
    ],
    TALK,
    [
        "Then {helper} came by and watched for a while.",
        "{hero} saw {helper} and politely asked for some help.",
        "Luckily {helper} saw it and sat down beside {him}.",
    ],
    ['"{advice}," said {the_helper} and showed {him} how.', '{The_helper} showed {him} how and said, "{advice}."'],
    [],
    [
        "Every day {hero} practiced, in sun and in rain.",
        "Again and again {hero} tried, even late at night.",
        "Week after week {hero} went on, and never stopped.",
    ],
    ["And then one day {success}.", "After many weeks, {success}.", "And all at once {success}."],
    [
        "{friend} clapped and clapped, and {hero} felt very {feeling}.",
        '"Now please teach me too," said {friend} happily.',
        "Soon after that, {hero} taught {friend} {verb}.",
    ],
    MORALS,
]

GUEST = [
    OPENINGS,
    DAILY_LIFE,
    [],
    [
        "{when} {guest} knocked at the old door.",
        "{when} {guest} stood outside in the rain.",
        "{when} {hero} found {guest} beside the road.",
    ],
    [
        '"I am cold and hungry," said {the_guest}.',
        '"May I please come in?" asked {the_guest}.',
        '"Could I sleep here tonight?" asked {the_guest}.',
    ],
    [
        '"Come and sit by the fire," said {hero}.',
        "{friend} was afraid, but {hero} opened the door wide.",
        "{hero} had very little, but {he} gladly shared it.",
    ],
    [
        "{hero} gave {the_guest} {food} and a warm bed.",
        "Together with {the_guest} they ate {food} and talked.",
        "{hero} cooked {food}, and {the_guest} told stories.",
    ],
    [],
    [
        "In the morning {the_guest} was gone, but there lay {a_thing}.",
        "Before leaving the house, {the_guest} gave {hero} {a_thing} for luck.",
        'Then {the_guest} said, "Keep this {thing}," and quietly left.',
    ],
    [
        "{hero} proudly showed the {thing} to {friend} and everyone.",
        "The {thing} shone in the sun like pure gold.",
        "{hero} kept the {thing} for {his} whole long life.",
    ],
    [
        "Years later, {hero} still told {friend} about {the_guest}.",
        "After that, the door of {hero} was never locked again.",
        "And every single year {the_guest} came back to {hero}.",
    ],
    FEASTS,
    MORALS,
]

QUARREL = [
    OPENINGS,
    [
        "{His} best friend was {friend}, who lived next door.",
        "{hero} and {friend} did everything together, day after day.",
        "{He} had one good friend, and that was {friend}.",
    ],
    [],
    [
        "{when} the two found {a_thing} in the grass.",
        "{when} they saw {a_thing} {hiding}.",
        "{when} {helper} gave the two {a_thing}.",
    ],
    [
        '"It is mine!" cried {hero}. "No, it is mine!" cried {friend}.',
        '"I saw it first," said {friend}. "Give it to me," said {hero}.',
        '"Now give me the {thing}," said {hero}. "Never!" said {friend} angrily.',
    ],
    [
        "After that they did not speak for three whole days.",
        "{friend} went home at once and shut the front door.",
        "{hero} kept the {thing} and still had no joy.",
    ],
    [
        "The house was quiet, and {hero} felt alone.",
        "Even {food} tasted of nothing to {hero} now.",
        "But {hero} could not sleep at all that night.",
    ],
    [],
    [
        'Then {hero} knocked at the door and said, "I am sorry."',
        'At last {hero} went over and said, "You may have it."',
        'One quiet day {hero} thought, "Only a friend can really laugh."',
    ],
    [
        '"I am sorry too," said {friend} and smiled back.',
        '"Let us share it," said {friend} with a smile.',
        '"I missed you, {hero}," said {friend} very softly.',
    ],
    [
        "From then on the {thing} belonged to both of them.",
        "They put the {thing} where both of them saw it.",
        "They hung the {thing} in the kitchen for them both.",
    ],
    FEASTS,
    MORALS,
]

JOURNEY = [
    OPENINGS,
    [
        "Every night {hero} dreamed of {goal} and often told {friend}.",
        "{hero} and {his} friend {friend} always wanted to see {goal}.",
        '"I will go to {goal}," {hero} told {friend}.',
    ],
    [],
    [
        "{when} {hero} and {friend} set out early with {a_thing}.",
        "{when} {hero} packed {food} and {a_thing} and left.",
        "{when} {hero} said goodbye to {friend} and took {a_thing}.",
    ],
    [
        "The road was long, and {hero} walked many days.",
        "The way led past quiet farms and very old forests.",
        "At night {hero} slept under the stars, without fear.",
    ],
    [
        "On the third day {helper} came along the road.",
        "At a lonely crossroads sat {helper}, all alone.",
        "Behind the third hill {hero} met {helper} walking home.",
    ],
    ['"How far is {goal}?" asked {hero}.', '"Please show me {goal}," said {hero}.'],
    ['"{advice}," said {the_helper} with a nod.', '{The_helper} just smiled and said, "{advice}."'],
    [],
    [
        "Then the way was blocked by {obstacle}.",
        "All at once {hero} stood before {obstacle}.",
        "But very soon {hero} came to {obstacle}.",
    ],
    [
        "{hero} was not afraid and {crossing}.",
        "{hero} took a breath and {crossing}.",
        "After some thought, {hero} {crossing}.",
    ],
    [
        "And there it was at last: {sight}.",
        "On the far side {hero} finally saw {sight}.",
        "At last {hero} could see it: {sight}.",
    ],
    [
        "{hero} stood still for a long time and felt {feeling}.",
        '"It is better than my dreams," said {hero}.',
        "{hero} left the {thing} there as a small gift.",
    ],
    [
        "When {hero} came home, {friend} wanted to hear everything.",
        "Back at home, {friend} listened with very big eyes.",
    ],
    MORALS,
]

LESSONS = {
    "trouble": [
        "that friends make heavy work light",
        "that small hands do great things",
        "that every storm ends some day",
        "that asking for help is brave",
    ],
    "lost": [
        "that friends are the best treasure",
        "that patience often finds the way",
        "that lost things can come back",
    ],
    "skill": [
        "that patience is stronger than hurry",
        "that mistakes can be good teachers",
        "that every master was once small",
    ],
    "guest": [
        "that kindness always finds its home",
        "that giving makes everybody a king",
        "that a stranger may bring luck",
    ],
    "quarrel": [
        "that sharing is better than keeping",
        "that a friend outweighs all gold",
        "that one small word heals much",
    ],
    "journey": [
        "that long roads begin with courage",
        "that home is where someone waits",
        "that dreams like to be visited",
    ],
}
"""What a story of each plot may teach."""

SUMMARIES = {
    "trouble": "In short, {hero} the {kind} lived {place}. When {event}, {hero} {fix} and learned {lesson}.",
    "lost": "In short, {hero} the {kind} lived {place}. The {thing} was lost, and in the end it was {hiding}.",
    "skill": "In short, {hero} the {kind} lived {place}. {hero} learned {verb} with the help of {helper}.",
    "guest": "In short, {hero} the {kind} lived {place}. {hero} was kind to {guest} and got {a_thing}.",
    "quarrel": "In short, {hero} the {kind} lived {place}. {hero} and {friend} quarreled over {a_thing} and made peace.",
    "journey": "In short, {hero} the {kind} lived {place}. {hero} went to {goal}, {crossing} and saw {sight}.",
}
"""A story of each plot in a few words."""
