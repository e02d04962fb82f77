"""Who and what the stories are about. All of it was written for this project.

Everything of one list has the same number of words. A story is then as long whatever is chosen, and each sentence stays where it
is in the canvas: see "What matters" in README.md. `tests/unit/train/test_corpus.py` checks it.
"""

# Word lists read better in full lines than with one quoted word per line.
# ruff: noqa: SIM905

from typing import NamedTuple

SHE = (
    "Ada Agnes Alice Alma Amelia Anna Asta Astrid Bella Berta Bonnie Carla Cecilia Clara Cora Daisy Dana Diana Dora Edith Elena Elin Ella "
    "Elsa Emilia Emma Erna Esther Eva Fanny Fatima Flora Freya Gerda Gloria Grace Greta Hanna Hazel Heidi Helga Hilda Ida Ines Ingrid Irene "
    "Iris Isla Jana Jasmin Jenny Julia June Karin Kira Klara Lara Laura Lena Leona Lilly Linnea Lotte Lucy Luna Malin Maria Marta Maya Mila "
    "Mina Mona Nadia Nina Nora Olga Olivia Paula Petra Polly Ramona Rosa Ruby Ruth Sadie Sarah Selma Sigrid Sofia Stella Svea Tara Tessa "
    "Thea Tilda Ursula Vera Violet Wanda Winnie Yara Zara Zoe"
).split()
HE = (
    "Aaron Abel Adam Albert Alfred Ali Anton Arlo Arthur Axel Basil Ben Boris Bruno Carl Cyril Daniel David Dimitri Edgar Edwin Elias Emil "
    "Eric Ernest Ewan Felix Finn Frank Fritz Gabriel George Gilbert Gus Gustav Hamid Hans Harold Harry Henry Hugo Ian Igor Isaac Ivan Jack "
    "Jacob Jan Jasper Joel Johan Jonas Joseph Julius Karl Kenji Klaus Konrad Lars Leo Leon Linus Louis Luca Lukas Magnus Marco Mark Martin "
    "Max Michael Milo Moses Nico Noah Oliver Omar Oscar Otto Owen Paul Percy Peter Quentin Ralph Robert Rolf Rufus Sam Simon Stefan Theo "
    "Thomas Tobias Tom Urban Victor Walter Wilbur Xaver Yusuf Zeno"
).split()

KINDS = (
    "badger bear beaver bee camel cat cow crane crow deer dog donkey dragon duck elephant elf fox frog giant giraffe goat goose hare "
    "hedgehog horse kangaroo lion lizard lynx mole monkey moose mouse otter owl panda penguin pig pigeon pony rabbit raccoon rat raven "
    "robot seal sheep snail sparrow spider squirrel stork swan tiger toad tortoise troll walrus whale wizard wolf zebra actor artist baker "
    "barber beekeeper blacksmith boy builder butcher captain carpenter clockmaker clown cook dancer doctor farmer ferryman fiddler fisherman "
    "gardener girl hunter inventor juggler king knight librarian mechanic miller miner monk musician painter pilot pirate poet postman potter "
    "prince princess queen sailor shepherd shoemaker singer tailor teacher weaver"
).split()
FEMALE_KINDS = {"cow", "girl", "princess", "queen"}
MALE_KINDS = {"boy", "ferryman", "fisherman", "king", "monk", "postman", "prince"}

TRAITS = (
    "brave calm careful cheerful clever clumsy curious friendly funny gentle helpful honest hungry kind lazy little lonely lucky merry "
    "modest nervous noisy old patient polite proud quick quiet serious shy silly sleepy strong stubborn thoughtful tiny wise young"
).split()

PLACES = [
    "at a deep lake", "at the city gate", "at the north pole", "behind a tall hedge", "behind the old mill", "behind the snowy hills",
    "beside a blue lake", "beside a loud waterfall", "beside the railway station", "by a busy market", "by a frozen river", "by the fishing harbor",
    "by the sandy beach", "by the wide river", "in a cozy attic", "in a dusty desert", "in a glass palace", "in a green valley", "in a hollow tree",
    "in a lonely castle", "in a mountain hut", "in a painted wagon", "in a quiet village", "in a rocky cave", "in a rose garden",
    "in a snowy forest", "in a tall lighthouse", "in a tiny cottage", "in a white tower", "in the deep woods", "in the old town",
    "near a warm spring", "near the apple orchard", "near the dark forest", "near the great desert", "near the stone bridge", "on a distant island",
    "on a floating raft", "on a foggy moor", "on a green hill", "on a large farm", "on a narrow street", "on a sunny meadow", "on the flat roof",
    "on the rocky coast", "under an old oak", "under the long bridge", "under the waving palms",
]  # fmt: skip

THINGS = [
    "blue kite", "brass bell", "broken lantern", "carved flute", "clay cup", "copper kettle", "crystal ball", "dancing shoe", "empty bottle",
    "feather pen", "garden spade", "glass marble", "golden feather", "golden ring", "green umbrella", "honey jar", "ivory comb", "leather book",
    "little telescope", "long rope", "magic stone", "music box", "old map", "paper boat", "pocket watch", "purple hat", "rag doll", "red scarf",
    "round mirror", "rubber ball", "rusty sword", "sea shell", "silk ribbon", "silver key", "silver spoon", "small lamp", "spinning top",
    "straw basket", "striped sock", "tin whistle", "toy train", "velvet bag", "warm blanket", "white pearl", "wool coat", "wooden drum",
    "wooden horse", "yellow balloon",
]  # fmt: skip

FOODS = [
    "apple cake", "baked apples", "barley soup", "black bread", "carrot soup", "cheese pie", "cherry pie", "corn bread", "fresh rolls",
    "fried potatoes", "honey cake", "hot chocolate", "lemon tea", "mushroom stew", "oat cookies", "onion soup", "pea soup", "pear tart",
    "plum jam", "pumpkin soup", "rice pudding", "roasted chestnuts", "sweet noodles", "tomato salad", "walnut bread", "warm milk", "wild berries",
]  # fmt: skip

TIMES = [
    "One bright morning", "One cold night", "One cool autumn", "One dark evening", "One early spring", "One fine afternoon", "One foggy night",
    "One frosty morning", "One gray Monday", "One hot summer", "One late autumn", "One lazy Saturday", "One long winter", "One mild evening",
    "One quiet Sunday", "One rainy evening", "One snowy day", "One starry night", "One stormy night", "One windy afternoon",
]  # fmt: skip

FEELINGS = "brave calm cheerful content free grateful happy lucky proud relieved safe strong wonderful".split()

SAYINGS = [
    "Courage is something you learn", "Give me your hand now", "I am not afraid today", "I have a good idea", "I will never give up",
    "It is never too late", "Let us ask for help", "Let us begin right here", "Let us try once more", "Listen and look around first",
    "Somebody must make a start", "There is always a way", "There is nothing to fear", "Tomorrow is a new day", "Two heads are better together",
    "We can do it together", "We have plenty of time", "We will manage this somehow",
]  # fmt: skip

HIDING_PLACES = [
    "behind the garden gate", "behind the kitchen stove", "beneath the wooden stairs", "between two thick roots", "in a coat pocket",
    "in an old boot", "in the warm hay", "inside an empty nest", "on the top shelf", "under a flat stone", "under a loose board",
    "under the deep snow",
]  # fmt: skip


class Helper(NamedTuple):
    """Someone who comes along and always gives the same advice."""

    name: str
    saying: str


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


HELPERS = [
    Helper("a friendly crow", "Look at it from above"),
    Helper("a gray heron", "Wait for the right moment"),
    Helper("a little bat", "The dark is no enemy"),
    Helper("a passing merchant", "Good things have their price"),
    Helper("a retired captain", "Every wind will turn someday"),
    Helper("a sleepy cat", "First rest and then work"),
    Helper("a talking fish", "Water always finds its way"),
    Helper("a tall stranger", "Trust what your heart says"),
    Helper("a village doctor", "Hope is the best medicine"),
    Helper("a wandering monk", "Small steps also lead far"),
    Helper("a white horse", "Run only when you must"),
    Helper("a wise grandmother", "Ask and you will learn"),
    Helper("a young shepherd", "Count your friends every day"),
    Helper("an ancient tree", "Strong roots need many years"),
    Helper("an honest thief", "The truth opens every door"),
    Helper("an invisible ghost", "Nobody sees the whole picture"),
    Helper("an old sailor", "After the storm comes calm"),
    Helper("an old turtle", "Slow and steady gets there"),
    Helper("the moon lady", "Even the night has lights"),
    Helper("the night watchman", "Morning is wiser than evening"),
]

TROUBLES = [
    Trouble("a storm", "a great storm shook the harbor", ("lit every lamp along the coast", "tied all the boats to trees")),
    Trouble("a bridge that fell", "the bridge fell into the river", ("built a bridge from willow branches", "stretched a rope across the water")),
    Trouble("a dry well", "the only well had run dry", ("dug until clear water rose again", "found a spring under the moss")),
    Trouble("a lamp that no longer burned", "the great lamp no longer burned", ("lit the lamp with lemon oil", "caught the moonlight in a mirror")),
    Trouble("an early winter", "winter came much too early again", ("shared warm blankets with all neighbors", "knitted forty pairs of red gloves")),
    Trouble("a thick fog", "a thick fog hid every path", ("rang a bell for the lost", "marked the path with white stones")),
    Trouble("bread that would not rise", "the bread would not rise anymore", ("kept the dough warm all night", "found fresh yeast in the cellar")),
    Trouble("a bell that would not ring", "the big bell would not ring", ("tied a rope to the bell", "polished the bell until it sang")),
    Trouble("a bird that lost its nest", "a small bird lost its nest", ("built a nest of soft moss", "hung a basket for the bird")),
    Trouble("seeds that would not grow", "the seeds would not grow anymore", ("carried water to the tiny seeds", "dug worms into the dark earth")),
    Trouble("a wind that howled", "the wind howled through every house", ("planted trees against the cold wind", "hung chimes that sang all night")),
    Trouble("a clock that stopped", "the town clock stopped at noon", ("cleaned every wheel of the clock", "wound the clock with two hands")),
    Trouble("a flood", "a flood covered all the fields", ("built a wall of sand bags", "dug a ditch for the water")),
    Trouble("a fire", "a fire started in the barn", ("led the animals out of danger", "threw wet blankets over the flames")),
    Trouble("a sheep that ran away", "a sheep ran away from home", ("called the sheep until it answered", "followed small tracks in the snow")),
    Trouble("a neighbor who fell ill", "a neighbor fell ill with fever", ("cooked soup for the sick neighbor", "found healing herbs on the hill")),
    Trouble("a golden crown", "somebody stole the famous golden crown", ("found the crown in a nest", "made a new crown of flowers")),
    Trouble("an angry giant", "an angry giant blocked the road", ("invited the giant to a dinner", "told the giant a good joke")),
    Trouble("a star that fell", "a star fell from the sky", ("carried the star up the hill", "kept the star warm till dawn")),
    Trouble("a ship on the rocks", "a ship ran onto the rocks", ("rowed out and saved the sailors", "pulled the ship into deeper water")),
    Trouble("weeks of no rain", "no rain fell for many weeks", ("dug a channel from the lake", "sang the ancient song of rain")),
    Trouble("a mouse that ate cheese", "a mouse ate all the cheese", ("set a table for the mouse", "taught the mouse to bake bread")),
    Trouble("an apple tree that would not bloom", "the apple tree would not bloom", ("asked the bees to come back", "cut away the old dead branches")),
    Trouble("an important letter", "an important letter did not arrive", ("looked for the letter in bags", "wrote the letter again from memory")),
    Trouble("a sail that tore", "the sail tore from the mast", ("sewed the sail with red thread", "made a sail from old shirts")),
    Trouble("a locked gate", "the gate was locked all day", ("climbed in and opened the gate", "made a new key from tin")),
    Trouble("a king who could not laugh", "the king could not laugh anymore", ("danced for the king all day", "tickled the king with a feather")),
    Trouble("a cold stove", "the stove went cold at midnight", ("gathered dry wood for the stove", "traded a song for some coal")),
    Trouble("a wheel that broke", "the wheel of the cart broke", ("carved a new wheel from oak", "mended the wheel with some glue")),
    Trouble("a train in a tunnel", "a train stopped in the tunnel", ("led everyone through the dark tunnel", "pushed the train to the station")),
    Trouble("a roof that began to leak", "the roof began to leak badly", ("patched the roof with birch bark", "nailed new boards onto the roof")),
    Trouble("a lost child", "a child got lost in town", ("found the child beside the fountain", "brought the child home by noon")),
    Trouble("the library books", "all the library books were gone", ("wrote new books for the library", "borrowed books from every other house")),
    Trouble("two children on the lake", "two children slipped on the lake", ("crawled across the ice with ropes", "held a ladder over the ice")),
    Trouble("a hungry bear", "a hungry bear came into town", ("fed the bear with fresh fish", "led the bear to sweet berries")),
    Trouble("bees that lost their home", "the bees had lost their home", ("built the bees a wooden house", "carried the bees to a garden")),
    Trouble("a wagon stuck in mud", "a wagon got stuck in mud", ("pulled the wagon with strong ropes", "laid planks under the heavy wagon")),
    Trouble("a fence that fell", "the fence fell in the night", ("mended the fence with new nails", "planted a hedge beside the fence")),
    Trouble("a fallen tree", "a fallen tree blocked the road", ("sawed the tree into many pieces", "dug a new road around it")),
    Trouble("an orchestra without music", "the orchestra had lost its music", ("hummed the music note by note", "wrote new music for the orchestra")),
]  # fmt: skip

SKILLS = [
    Skill("to sail boats", "The boat went round and round", "the boat flew over the water"),
    Skill("to bake bread", "The loaf was hard as stone", "the bread was golden and soft"),
    Skill("to play flute", "The flute only squeaked and squeaked", "the flute sang like a bird"),
    Skill("to swim well", "The cold water was too deep", "the water felt like a friend"),
    Skill("to dance waltzes", "Both feet went the wrong way", "every step was light as snow"),
    Skill("to paint pictures", "The paint ran down like rain", "the picture glowed like a window"),
    Skill("to read books", "The letters looked like little ants", "every page opened like a door"),
    Skill("to fly kites", "The kite fell on its nose", "the kite climbed above the clouds"),
    Skill("to sing songs", "The song sounded like a door", "the song filled the whole valley"),
    Skill("to skate backwards", "The ice was slippery and hard", "the ice sang under both feet"),
    Skill("to climb ropes", "The rope slipped again and again", "the rope felt like a ladder"),
    Skill("to juggle apples", "The apples rolled under the table", "five apples danced in the air"),
    Skill("to tell jokes", "The jokes came out all wrong", "everyone laughed and laughed all day"),
    Skill("to ride bicycles", "The bicycle fell into a bush", "the bicycle rolled like the wind"),
    Skill("to grow roses", "The first rose had only thorns", "a hundred roses opened one night"),
    Skill("to build boats", "The first boat sank at once", "the boat floated like a swan"),
    Skill("to catch fish", "The line was full of boots", "the basket was full of fish"),
    Skill("to cook soup", "The soup tasted of old socks", "the soup smelled good for miles"),
]  # fmt: skip

JOURNEYS = [
    Journey("the distant sea", "a wide swamp", "jumped from stone to stone", "waves as tall as houses"),
    Journey("the highest mountain", "an ice wall", "cut small steps with care", "the world lying far below"),
    Journey("the bell city", "a wild river", "built a raft of branches", "a thousand bells of gold"),
    Journey("the rainbow bridge", "a thorn forest", "crept on like a mouse", "all the colors at play"),
    Journey("the full moon", "a long night", "climbed a ladder of clouds", "a silver garden without rain"),
    Journey("the red desert", "a burning hill", "walked only in the evening", "a well under three palms"),
    Journey("the great library", "a riddle gate", "solved the riddle with ease", "more books than forest leaves"),
    Journey("the northern lights", "a frozen lake", "slid along on a board", "green light over the snow"),
    Journey("the secret garden", "a stone wall", "found a small hidden door", "flowers that hummed like bees"),
    Journey("the oldest tree", "a misty valley", "held on to a thread", "a tree full of secrets"),
    Journey("the sunken ship", "a coral reef", "dived with the green turtles", "a chest full of pearls"),
    Journey("the cloud castle", "a steep cliff", "rode up on an eagle", "towers made of white feathers"),
]  # fmt: skip

GUESTS = [
    "a blind painter", "a hungry wolf", "a lost child", "a poor student", "a proud duchess", "a sad clown", "a secret queen", "a silent giant",
    "a silver woman", "a singing beggar", "a soaked postman", "a tired traveler", "a wet dog", "a wounded goose", "an exhausted knight",
    "an old soldier", "an unlucky gambler", "an unknown boy",
]  # fmt: skip
