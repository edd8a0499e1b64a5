"""Genres of the simulated world: what they do to a film's length, certificate, cost and season, and their words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Genre:
    """A genre, its habits and its words."""

    name: str
    """What most catalogues call it."""
    alias: str
    """What some call it."""
    share: float
    """How often a director takes to it."""
    runtime: int
    """Usual length in minutes."""
    cost: float
    """Factor on the budget."""
    appeal: float
    """What it adds to the user score."""
    certificates: tuple[float, ...]
    """Weights of the five certificates, mildest first."""
    season: int
    """Month in which half of its films open."""
    companions: tuple[str, ...]
    """Genres that go with it, likeliest first."""
    qualities: tuple[str, ...]
    """Adjectives of its titles."""
    things: tuple[str, ...]
    """Nouns of its titles."""
    keywords: tuple[str, ...]
    """What catalogues tag it with."""
    heroes: tuple[str, ...]
    """Who its stories are about."""
    quests: tuple[str, ...]
    """What they do."""


def _genre(
    names: str, numbers: str, certificates: str, companions: str, titles: str, keywords: str, heroes: str, quests: str
) -> Genre:
    share, runtime, cost, appeal, season = numbers.split()
    qualities, things = titles.split(" / ")
    return Genre(
        name=names.split("|")[0],
        alias=names.split("|")[1],
        share=float(share),
        runtime=int(runtime),
        cost=float(cost),
        appeal=float(appeal),
        certificates=tuple(float(weight) for weight in certificates.split()),
        season=int(season),
        companions=tuple(companions.split("|")),
        qualities=tuple(qualities.split()),
        things=tuple(things.split()),
        keywords=tuple(keywords.split("|")),
        heroes=tuple(heroes.split("|")),
        quests=tuple(quests.split("|")),
    )


GENRES = (
    _genre(
        "Action|Action",
        "0.12 114 3.0 -0.2 7",
        "0 1 16 4 0",
        "Crime|Science Fiction|War",
        "Burning Relentless Final Steel Broken Rapid Lethal Scarlet Unbound Zero / Strike Pursuit Convoy Vengeance "
        "Bullet "
        "Outpost Reckoning Collision Payload Vanguard Fuse Siege",
        "car chase|explosion|hostage|mercenary|one man army|stunt|arms dealer|rescue mission",
        "A disgraced commando|A getaway driver|A bomb technician|A bodyguard on her last job|A rival agent",
        "must stop a stolen convoy before dawn|fights through a tower seized by mercenaries|"
        "is framed and hunted by old "
        "allies|races to free the hostages",
    ),
    _genre(
        "Animation|Animated",
        "0.06 91 2.2 0.3 12",
        "16 7 1 0 0",
        "Fantasy|Comedy|Science Fiction",
        "Little Runaway Clockwork Sleepy Marvellous Tiny Paper Giggling Moonlit Woolly / Dragon Balloon Hedgehog "
        "Toymaker "
        "Island Penguin Kite Lighthouse Acorn Robot Teapot Parade",
        "talking animal|friendship|hand drawn|magic toy|lost pet|musical number|growing up|forest",
        "A timid hedgehog|A clockwork robot|The youngest dragon of the valley|A lonely lighthouse boy|"
        "A choir of penguins",
        "sets out to find the way home|learns to fly with the help of friends|saves the forest from a greedy "
        "inventor|befriends the creature everybody fears",
    ),
    _genre(
        "Comedy|Comedies",
        "0.16 98 0.9 -0.1 4",
        "0 4 15 4 0",
        "Romance|Drama|Crime",
        "Accidental Crazy Perfect Married Honest Lucky Awkward Hungry Famous Cheap / Wedding Neighbours Holiday "
        "Landlord "
        "Reunion Bachelor Uncle Waiter Vacation Divorce Lottery Dentist",
        "mistaken identity|slapstick|family reunion|small town|road trip|satire|wedding|odd couple",
        "A hapless waiter|A feuding neighbour|A runaway bride|The worst dentist in town|A bankrupt uncle",
        "wins the lottery and loses the ticket|pretends to be married for a week|ruins the wedding of the year|"
        "has to share "
        "one flat with a rival",
    ),
    _genre(
        "Crime|Crime & Gangster",
        "0.11 111 1.1 0.2 9",
        "0 0 4 18 1",
        "Drama|Action|Horror",
        "Crooked Dirty Cold Hidden Silent Double Rotten Borrowed Marked Nameless / Alibi Witness Heist Ledger "
        "Informer Debt "
        "Verdict Fence Precinct Ransom Killer Safehouse",
        "heist|detective|corruption|undercover|murder|gangster|blackmail|police procedural",
        "A weary detective|A retired safecracker|An honest accountant|A young prosecutor|An informer with two names",
        "follows a trail of forged letters|is drawn into one last heist|uncovers who paid for the murder|must testify "
        "against an old friend",
    ),
    _genre(
        "Documentary|Documentaries",
        "0.07 86 0.12 0.8 3",
        "4 14 3 1 0",
        "War|Drama|Comedy",
        "Living Untold Counting Vanishing Common True Forgotten Measured Public Inside / Glacier Harvest Archive "
        "Orchestra "
        "Border River Voices Workers Language Coral Stadium Bees",
        "archive footage|interview|climate|music history|portrait|investigation|wildlife|labour",
        "A team of divers|A family of farmers|A forgotten orchestra|The crew of a closing mill|A beekeeper",
        "tells a story kept silent for decades|is filmed over ten years|opens its archive for the first time|"
        "shows what "
        "is lost when the river moves",
    ),
    _genre(
        "Drama|Dramas",
        "0.18 117 0.8 0.4 11",
        "0 3 15 6 0",
        "Romance|Crime|War",
        "Distant Quiet Fading Patient Tender Unsaid Empty Ordinary Late Fragile / Mothers Inheritance Winter "
        "Daughter Silence "
        "Orchard Letters Confession House Ashes Autumn Piano",
        "family secret|grief|terminal illness|class difference|based on a novel|coming of age|loneliness|marriage",
        "A widowed piano teacher|An estranged daughter|A younger brother|A country doctor|A factory worker",
        "returns to sell the house of childhood|learns to live with a loss|finds letters that change everything|"
        "faces a "
        "choice between duty and love",
    ),
    _genre(
        "Fantasy|Fantasy & Magic",
        "0.06 122 2.8 0.1 12",
        "1 17 6 0 0",
        "Animation|Romance|Action",
        "Enchanted Crystal Hidden Ancient Emerald Winged Sunken Starlit Cursed Golden / Kingdom Sorcerer Crown "
        "Labyrinth "
        "Prophecy Unicorn Realm Amulet Throne Spell Phoenix Oracle",
        "magic|wizard|quest|prophecy|dragon|parallel world|sword|curse",
        "An orphaned apprentice|The last keeper of the amulet|A reluctant queen|A thief with a magic map|"
        "A blind sorcerer",
        "must cross the sunken kingdom|awakens an ancient curse|seeks the crown before the moon turns|"
        "learns the price of a "
        "spell",
    ),
    _genre(
        "Horror|Scary Movies",
        "0.08 93 0.4 -0.7 10",
        "0 0 1 16 5",
        "Science Fiction|Crime|Fantasy",
        "Bleeding Hollow Whispering Unholy Buried Pale Rotting Midnight Feral Nailed / Cellar Scarecrow Asylum "
        "Coffin Ritual "
        "Possession Crypt Swarm Mask Seance Hunger Graveyard",
        "haunted house|ghost|slasher|possession|gore|cult|zombie|isolation",
        "A family of four|A night nurse|A student|A sceptical priest|The new caretaker",
        "moves into a house that remembers|hears the walls breathe|wakes something under the cellar|"
        "is stalked by a masked "
        "stranger",
    ),
    _genre(
        "Romance|Romantic",
        "0.09 104 0.7 0.0 2",
        "1 16 7 1 0",
        "Comedy|Drama|Fantasy",
        "Sweet Secret Endless Summer Breathless Second Beloved Rainy Parisian Forever / Kiss Waltz Promise Hearts "
        "Serenade "
        "Lovers Rendezvous Honeymoon Roses Stranger Valentine Proposal",
        "love triangle|first love|summer romance|long distance|forbidden love|letter|dance|second chance",
        "A shy florist|A touring violinist|A stranger on a night train|A divorced architect|A village baker",
        "falls for the one person off limits|meets a first love again|has one summer to say yes|"
        "writes letters never meant "
        "to be sent",
    ),
    _genre(
        "Science Fiction|Sci-Fi",
        "0.07 118 2.6 0.1 6",
        "0 2 16 4 0",
        "Action|Horror|Fantasy",
        "Orbital Quantum Synthetic Infinite Binary Dark Lunar Frozen Parallel Hollow / Signal Colony Horizon "
        "Android Paradox "
        "Nebula Protocol Eclipse Station Genesis Drift Singularity",
        "spaceship|artificial intelligence|time travel|dystopia|alien|clone|space colony|virus",
        "A stranded pilot|An android without memories|The last crew of a lunar station|A linguist|A time archivist",
        "receives a signal from the future|discovers the colony is a copy|must reboot a dying sun|"
        "learns who sent the drones",
    ),
    _genre(
        "War|War & Military",
        "0.06 126 1.8 0.5 5",
        "0 1 4 18 0",
        "Drama|Action|Documentary",
        "Fallen Bloody Forgotten Grey Long Muddy Iron Last Scorched Northern / Regiment Trench Armistice Bunker "
        "Platoon "
        "Battalion March Bridgehead Frontline Medal Sniper Retreat",
        "trench|resistance|prisoner of war|air raid|deserter|occupation|battlefield|spy",
        "A young medic|A deserter|The radio operator of a lost platoon|A resistance courier|An officer",
        "carries a message across the front|hides a wounded enemy|holds the bridge for one more night|"
        "counts the days to "
        "the armistice",
    ),
    _genre(
        "Western|Westerns",
        "0.04 102 0.9 0.0 8",
        "0 14 6 3 0",
        "Action|Drama|Comedy",
        "Lonesome Dusty High Crooked Seven Red Outlaw Silver Bitter Dry / Canyon Gunslinger Saloon Sheriff Prairie "
        "Stagecoach "
        "Rifle Homestead Corral Badge Rider Gallows",
        "gunfight|sheriff|cattle drive|revenge|frontier|bounty hunter|railroad|gold rush",
        "A drifter with one rifle|A widowed homesteader|An ageing sheriff|A bounty hunter|A stagecoach guard",
        "rides into a town that wants no law|defends the homestead against the railroad|hunts the gang across the "
        "canyon|returns for an old debt",
    ),
)
"""Every genre."""

GENRE_PLACE = {genre.name: place for place, genre in enumerate(GENRES)}
"""Place of each genre by its name."""

CHARACTERS = (
    *(
        "The stranger",
        "The sheriff",
        "The mother",
        "The captain",
        "The doctor",
        "The thief",
        "The neighbour",
        "The judge",
    ),
    *("The inspector", "The teacher", "The pilot", "The brother", "The widow", "The apprentice", "The driver"),
)
"""Parts that are known by what they are."""

TIMES = (
    *("over one summer", "in a single night", "after the flood", "during a long strike", "on the eve of a wedding"),
    *("while the city sleeps", "in the winter of a hard year", "against all advice", "with nothing left to lose"),
    "as the old order falls",
)
"""Ends of a plot."""
