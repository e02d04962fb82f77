"""Who and what the stories are about. All of it was written for this project."""

# Word lists read better in full lines than with one quoted word per line.
# ruff: noqa: SIM905

from typing import NamedTuple

SHE = (
    "Ada Alma Asta Bella Bonnie Cecilia Daisy Diana Elena Emilia Eva Freya Grace Hazel Hilda Ingrid Jana June Lara Linnea Luna Malin Marta Mila "
    "Mona Nora Paula Polly Rosa Sadie Sigrid Svea Tilda Vera Winnie Zara"
).split()
HE = (
    "Abel Ali Arlo Axel Carl Cyril Dimitri Elias Ernest Finn Gabriel Gus Harold Henry Igor Jack Johan Julius Kenji Leon Luca Marco Max Moses "
    "Noah Omar Owen Percy Quentin Rolf Sam Simon Theo Tom Victor Wilbur Zeno"
).split()

KINDS = [
    *"badger bear bee cat cow crow dog donkey dragon duck fox frog giant goat goose hedgehog horse lion monkey mouse otter owl penguin".split(),
    *"pig rabbit robot sheep sparrow squirrel tortoise troll whale wizard wolf baker beekeeper blacksmith boy clockmaker cook farmer".split(),
    *"ferryman fisherman gardener girl king knight librarian miller musician painter pilot pirate prince princess queen sailor shepherd".split(),
    *["bell ringer", "lighthouse keeper", "polar bear", "toy maker"],
]  # fmt: skip
FEMALE_KINDS = {"cow", "girl", "princess", "queen"}
MALE_KINDS = {"boy", "ferryman", "fisherman", "king", "prince"}

TRAITS = (
    "brave careful cheerful clever curious friendly gentle helpful honest kind little lonely lucky merry modest old patient polite proud quick quiet "
    "serious shy sleepy stubborn thoughtful tiny wise young"
).split()

PLACES = [
    "at the edge of the sea", "at the end of a long road", "at the foot of a mountain", "behind the old mill", "behind the snowy hills",
    "beside a blue lake", "beside a waterfall", "by the harbor", "by the river", "in a busy market town", "in a castle with seven towers",
    "in a cave above the sea", "in a city of bridges", "in a cottage with a red door", "in a garden full of roses", "in a green valley",
    "in a hollow tree", "in a house on wheels", "in a small village", "in a snowy forest", "in a tall lighthouse", "in a tower full of books",
    "in the deep woods", "in the middle of a wide meadow", "in the old town", "near a quiet pond", "near the dark forest",
    "near the railway station", "next to a windmill", "on a boat in the harbor", "on a farm with a red barn", "on a green hill",
    "on a lonely island", "on a narrow street", "on the far side of the desert", "on the roof of a tall house", "on the shore of a cold bay",
    "under a stone bridge", "under an old oak tree", "where the river meets the sea",
]  # fmt: skip

THINGS = [
    "blue kite", "brass bell", "broken lantern", "carved flute", "clay cup", "copper kettle", "crystal ball", "drum", "feather pen", "glass marble",
    "golden feather", "golden ring", "green umbrella", "jar of honey", "leather book", "little telescope", "long rope", "loaf of bread",
    "magic stone", "map", "music box", "paper boat", "pair of boots", "pearl", "pocket watch", "red scarf", "round mirror", "shell",
    "silver key", "silver spoon", "small lamp", "straw hat", "tin whistle", "warm blanket", "wool coat", "wooden boat", "wooden horse",
    "yellow balloon",
]  # fmt: skip

FOODS = [
    "apple cake", "bread and honey", "bread and cheese", "carrot soup", "cherry pie", "fresh rolls", "hot chocolate", "mushroom stew",
    "pancakes", "pear tart", "plum jam", "potato soup", "pumpkin soup", "roasted chestnuts", "sweet tea", "warm milk", "wild berries",
]  # fmt: skip

HELPERS = [
    "an old turtle", "a passing merchant", "a gray heron", "a young shepherd", "a sleepy cat", "a traveling singer", "a friendly crow",
    "the village doctor", "a wise old woman", "an old sailor", "a tall stranger", "the night watchman", "a wandering monk", "a white horse",
    "a talking fish", "the oldest tree in the forest", "a fat toad", "a retired captain", "a small bat", "the man in the moon",
]  # fmt: skip

TIMES = [
    "One bright morning", "One rainy evening", "On a cold winter day", "Late in the summer", "When the first leaves fell", "One foggy night",
    "In the early spring", "On the longest day of the year", "Just before sunrise", "One windy afternoon", "On the first day of snow",
    "One quiet Sunday", "At the end of the harvest", "On a night without stars", "One warm day in May",
]  # fmt: skip

FEELINGS = [
    "calm",
    "full of hope",
    "grateful",
    "happy",
    "light as a feather",
    "proud",
    "relieved",
    "surprised",
    "tired but happy",
    "warm inside",
]

SAYINGS = [
    "I will not give up", "We can do it together", "There must be a way", "Let us try once more", "A small step is still a step",
    "I have an idea", "Do not worry", "Look closely and listen", "Let us start at the beginning", "It is never too late",
    "Two heads are better than one", "Where there is a question, there is an answer", "Give me your hand", "Let us think first",
    "I am not afraid", "Morning is wiser than evening", "We have time", "I know someone who can help",
]  # fmt: skip

LESSONS = [
    "that patience is stronger than hurry", "that friends make heavy work light", "that small hands can do great things",
    "that every storm comes to an end", "that asking for help is brave", "that kindness always finds its way home",
    "that it is good to begin again", "that quiet people notice the most", "that a promise is worth more than gold",
    "that nobody is too small to help", "that a mistake can be a good teacher", "that the best gifts cannot be bought",
    "that home is where someone waits for you", "that courage often speaks softly", "that it is better to share than to keep",
    "that the truth is the shortest way",
]  # fmt: skip


class Trouble(NamedTuple):
    """Something goes wrong. Every fix is a past-tense verb phrase that belongs to this trouble alone."""

    topic: str
    event: str
    fixes: tuple[str, ...]


class Skill(NamedTuple):
    """Something to learn: the verb, what goes wrong at first, and how it sounds when it works."""

    verb: str
    failure: str
    success: str


class Journey(NamedTuple):
    """A far place, what stands in the way, and what is there to see."""

    goal: str
    obstacle: str
    crossing: str
    sight: str


TROUBLES = [
    Trouble("a storm", "a great storm came and the waves rose high", ("lit every lamp to guide the boats home", "tied down the boats with strong ropes", "opened the door to everyone who was wet and cold")),
    Trouble("a broken bridge", "the bridge fell into the river", ("built a new bridge out of willow branches", "laid a long tree from one bank to the other", "stretched a rope across the water")),
    Trouble("a dry well", "the well ran dry", ("dug until clear water rose again", "found a spring under the moss", "followed the ants to a hidden stream")),
    Trouble("a lamp that went out", "the great lamp went out and all was dark", ("lit the lamp with the last drop of oil", "caught the light of the moon in a mirror", "asked the fireflies to shine together")),
    Trouble("an early winter", "winter came too early", ("shared warm blankets with everyone", "chopped wood for every stove", "knitted forty pairs of gloves")),
    Trouble("a thick fog", "a thick fog hid every path", ("rang a bell until everyone found the way", "followed the sound of the waves", "marked the path with white stones")),
    Trouble("bread that would not rise", "the bread would not rise", ("kept the dough warm all night under a blanket", "found fresh yeast in the cellar", "kneaded the dough slowly and sang to it")),
    Trouble("a silent bell", "the big bell no longer rang", ("tied a new rope to the bell", "found a nest of swallows inside the bell and moved it gently", "polished the bell until it sang")),
    Trouble("a bird without a nest", "a small bird lost its nest", ("made a nest of soft moss", "hung a basket in the tallest tree", "gave the bird a home in an old hat")),
    Trouble("seeds that did not grow", "the seeds did not grow", ("carried water to the seeds every day", "turned the dark earth and let in the sun", "waited and watched until the first green leaf came")),
    Trouble("a noisy wind", "the wind howled and nobody could sleep", ("hung chimes that turned the wind into music", "planted a row of trees against the wind", "sang louder and softer until the wind lay down")),
    Trouble("a clock that stopped", "the town clock stopped", ("cleaned every wheel of the clock", "found a grain of sand between the wheels", "wound the clock with a giant key")),
    Trouble("a flood", "the river rose and flooded the fields", ("built a wall of sand and stones", "dug a ditch that led the water away", "rowed from house to house and brought everyone to the hill")),
    Trouble("a fire", "a fire started in the barn", ("made a long line of people with buckets", "led all the animals out of the barn", "threw wet blankets over the flames")),
    Trouble("a lost sheep", "a sheep was lost in the hills", ("called its name until it answered", "followed the small tracks in the snow", "found the sheep behind a rock and carried it home")),
    Trouble("a sick friend", "a good friend fell ill", ("cooked soup and told stories by the bed", "climbed the hill to find the right herbs", "sat by the window and watched all night")),
    Trouble("a stolen crown", "the golden crown was stolen", ("followed the footprints to a magpie's nest", "asked so politely that the thief gave it back", "made a new crown of flowers")),
    Trouble("an angry giant", "an angry giant stamped on the roads", ("took a thorn out of the giant's foot", "invited the giant to dinner", "told the giant a joke until he laughed")),
    Trouble("a fallen star", "a star fell from the sky", ("carried the star up the highest hill", "built a ladder of light and brought it home", "kept the star warm until it could fly again")),
    Trouble("a ship on the rocks", "a ship ran onto the rocks", ("rowed out and brought the sailors ashore", "waited for the high tide and pulled the ship free", "patched the hole with wood and tar")),
    Trouble("a long drought", "no rain fell for a hundred days", ("dug a channel from the far lake", "shared the last water drop by drop", "sang the old rain song from the hill")),
    Trouble("a mouse in the kitchen", "a mouse ate all the cheese in the kitchen", ("made a small table for the mouse", "asked the mouse to guard the kitchen", "taught the mouse to bake its own bread")),
    Trouble("a tree that would not bloom", "the old apple tree would not bloom", ("asked the bees to come back", "gave the tree fresh earth and a kind word", "cut away the dead branches")),
    Trouble("a missing letter", "an important letter went missing", ("looked in every bag until it was found", "found the letter under a sleeping dog", "wrote the letter again from memory")),
    Trouble("a torn sail", "the sail tore from top to bottom", ("sewed the sail with red thread", "made a new sail from seven shirts", "rowed the whole way home")),
    Trouble("a locked gate", "the great gate was locked and the key was gone", ("climbed over the wall and opened it from inside", "made a new key out of tin", "knocked so kindly that the gate opened by itself")),
    Trouble("a king who could not laugh", "the king could not laugh any more", ("put a frog in the king's slipper", "danced a very silly dance", "told the story of the goose and the ladder")),
    Trouble("a cold stove", "the stove went cold and there was no wood", ("gathered dry branches in the forest", "traded a song for a cart of wood", "brought all the neighbors into one warm room")),
    Trouble("a broken wheel", "the wheel of the cart broke", ("carved a new wheel from oak", "carried the load on foot", "mended the wheel with rope and glue")),
    Trouble("a dark tunnel", "the train got stuck in a dark tunnel", ("walked ahead with a lantern", "pushed the train with all the passengers", "sang so that nobody was afraid")),
]  # fmt: skip

SKILLS = [
    Skill("to sail", "The boat went around in circles", "the boat flew over the water like a bird"),
    Skill("to bake bread", "The first loaf was as hard as a stone", "the bread was golden and soft"),
    Skill("to play the flute", "The flute only squeaked", "the music was so sweet that the birds came to listen"),
    Skill("to swim", "The water was cold and went up the nose", "the water carried {hero} like a friend"),
    Skill("to dance", "Both feet went the wrong way", "every step was as light as snow"),
    Skill("to paint", "The paint ran down like rain", "the picture glowed like a window"),
    Skill("to read", "The letters looked like ants", "every page opened like a door"),
    Skill("to fly a kite", "The kite fell on its nose", "the kite climbed higher than the clouds"),
    Skill("to sing", "The first song sounded like an old door", "the song filled the whole valley"),
    Skill("to skate", "The ice was slippery and hard", "the ice sang under {his} feet"),
    Skill("to climb", "The rope slipped again and again", "the top was reached before noon"),
    Skill("to juggle", "The apples rolled under the table", "five apples danced in the air"),
    Skill("to tell stories", "The words hid and would not come out", "everyone listened until the fire went out"),
    Skill("to ride a bicycle", "The bicycle fell into a bush", "the bicycle rolled down the hill like the wind"),
    Skill("to grow roses", "The first rose had only thorns", "a hundred roses opened in one night"),
    Skill("to build a boat", "The first boat sank at once", "the little boat floated as proudly as a swan"),
]  # fmt: skip

JOURNEYS = [
    Journey("the sea", "a wide swamp", "jumped from stone to stone", "waves as tall as houses and a ship with white sails"),
    Journey("the highest mountain", "a wall of ice", "cut small steps into the ice", "the whole world lying quietly below"),
    Journey("the city of bells", "a river without a bridge", "built a raft out of branches", "a thousand bells ringing in the sun"),
    Journey("the end of the rainbow", "a forest of thorns", "crept under the branches like a mouse", "a small pond in which all the colors were sleeping"),
    Journey("the moon", "a very long night", "climbed a ladder of clouds", "a silver garden where it never rained"),
    Journey("the desert", "a hill of hot sand", "walked at night when it was cool", "a green well under three palm trees"),
    Journey("the great library", "a gate with a riddle on it", "solved the riddle with a smile", "more books than there are leaves in the forest"),
    Journey("the northern lights", "a frozen lake", "slid across the ice on a wooden board", "green and red light dancing over the snow"),
    Journey("the secret garden", "a high stone wall", "found a little door behind the ivy", "flowers that hummed like bees"),
    Journey("the oldest tree in the world", "a valley full of mist", "held on to a long thread", "a tree so wide that a village lived inside it"),
]  # fmt: skip

GUESTS = ["a tired traveler", "a wet dog", "an old soldier", "a lost child", "a hungry wolf", "a queen in disguise", "a man with a heavy bag", "a woman with a silver coat", "a goose with a broken wing", "a sad clown"]  # fmt: skip

HIDING_PLACES = ["under a loose board", "in the nest of a magpie", "at the bottom of the well", "in an old boot", "behind the stove", "between two roots", "under the snow", "in the pocket of a coat", "on top of the cupboard", "in the hay"]  # fmt: skip
