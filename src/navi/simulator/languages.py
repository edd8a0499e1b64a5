"""Languages of the simulated world: names people bear, names studios bear, and titles in the original."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Language:
    """A language and the words that names and titles in it are built from."""

    name: str
    """Its English name."""
    code: str
    """Its two-letter code."""
    given: tuple[str, ...]
    """Given names."""
    surnames: tuple[str, ...]
    """Family names, made of stems and endings."""
    brands: tuple[str, ...]
    """First words of a studio's name."""
    houses: tuple[str, ...]
    """Last words of a studio's name."""
    openers: tuple[str, ...]
    """Beginnings of an original title."""
    closers: tuple[str, ...]
    """Ends of an original title, each fitting each beginning."""


def _language(
    name: str, code: str, given: str, stems: str, endings: str, houses: str, openers: str, closers: str
) -> Language:
    surnames = tuple(stem + ending for stem in stems.split() for ending in endings.split())
    return Language(
        name=name,
        code=code,
        given=tuple(given.split()),
        surnames=surnames,
        brands=surnames,
        houses=tuple(houses.split("|")),
        openers=tuple(openers.split("|")),
        closers=tuple(closers.split("|")),
    )


def _english() -> Language:
    first = (
        "Lantern Copper Northern Hollow Silver Paper Juniper Harbor Granite Bright Long Velvet Amber Iron Maple Blue"
    )
    second = "Bay Fox Light Kite Bridge Mill Orchard Tower Compass Anchor Field Crow Door Comet Wheel Garden"
    plain = _language(
        "English",
        "en",
        "Ada Bryn Cole Della Ellis Fern Gavin Hollis Ivy Jonah Kit Lena Marlow Nell Otis Perry Quinn Rhoda Silas Tess "
        "Una Vaughn Wren Zane Amos Clara Duncan Edie Felix Greta",
        "Ash Thorn Merri Hollo Pen Wex Brack Kel Stan Cald Fen Lark Old Rook Tarn",
        "ford wick bury dale worth ley combe stead",
        "Pictures|Films|Studios|Entertainment",
        "The Open|A Second|The Quiet|Another|The Last|One Long",
        "Window|Summer|Harbour|Letter|Station|Winter",
    )
    brands = tuple(f"{one} {two}" for one in first.split() for two in second.split())
    return Language(**{**plain.__dict__, "brands": brands})


LANGUAGES = (
    _english(),
    _language(
        "French",
        "fr",
        "Adèle Bastien Camille Didier Elodie Fabien Gaspard Hélène Isaure Jules Lucie Maxime Noémie Octave Perrine "
        "Rémi "
        "Solène Thibault Ursule Violette Yann Zélie",
        "Beau Mont Val Cler Dur Fav Lam Roch Ser Tour Vaud Garn",
        "court reau ier elle ard igny ande",
        "Productions|Films|Cinéma|Ateliers",
        "La maison|Le silence|L'ombre|Les enfants|Le dernier train|La mémoire|L'été|Le goût|Une lettre|Le jardin",
        "de la mer|du nord|des loups|de Marguerite|du matin|des oubliés|de l'hiver|du boulanger|de minuit|des amants",
    ),
    _language(
        "German",
        "de",
        "Anselm Birgit Clemens Dorothea Emil Frieda Gerlinde Henning Ilse Jannik Katrin Ludger Merle Nils Ottilie "
        "Ruprecht "
        "Svenja Tilman Uta Volker Wiebke Yannick",
        "Stein Brand Lind Hart Eich Rosen Falken Birken Grau Wald Sonnen Alt",
        "ner bach mann hof feld thal berger",
        "Filmproduktion|Film|Studios|Lichtspiele",
        "Das Haus|Die Stille|Der Schatten|Die Kinder|Der letzte Zug|Die Erinnerung|Der Sommer|Ein Brief|Der Garten",
        "am Meer|im Norden|der Wölfe|am Morgen|der Vergessenen|im Winter|des Bäckers|um Mitternacht|der Liebenden",
    ),
    _language(
        "Italian",
        "it",
        "Agnese Bruno Chiara Dario Elettra Fausto Ginevra Ilario Lavinia Matteo Nerina Ottavio Piera Renzo Silvana "
        "Tullio "
        "Ugo Viola Zeno Orsola",
        "Bel Mar Cast Fer Ros Vand Lom Gall Pel Tor Brav",
        "etti ini ardo elli ovani ucci esani",
        "Cinematografica|Film|Produzioni|Cinestudio",
        "La casa|Il silenzio|L'ombra|I figli|L'ultimo treno|La memoria|L'estate|Una lettera|Il giardino",
        "del mare|del nord|dei lupi|del mattino|dei dimenticati|d'inverno|del fornaio|di mezzanotte|degli amanti",
    ),
    _language(
        "Spanish",
        "es",
        "Alba Benito Carmela Darío Estela Fermín Graciela Horacio Inés Joaquín Lucero Marcelo Nieves Octavio Paloma "
        "Ramiro "
        "Soledad Tadeo Úrsula Ximena",
        "Al Cor Mon Ver Sal Bar Cal Mal Ri Val Ar",
        "dero tejo rales mendi vado banda quez",
        "Producciones|Films|Cine|Estudios",
        "La casa|El silencio|La sombra|Los hijos|El último tren|La memoria|El verano|Una carta|El jardín",
        "del mar|del norte|de los lobos|de la mañana|de los olvidados|de invierno|del panadero|de medianoche",
    ),
    _language(
        "Portuguese",
        "pt",
        "Aline Bento Caetana Davi Eunice Flávio Glória Heitor Iara Jonas Luzia Moacir Nádia Otávio Raquel Severino "
        "Tainá "
        "Ubirajara Vicente Zilda",
        "Al Cam Per Sil Bran Fon Mour Tei Vas",
        "meida pos eira veira dão seca xeiro",
        "Filmes|Produções|Cinema|Estúdios",
        "A casa|O silêncio|A sombra|Os filhos|O último trem|A memória|O verão|Uma carta|O jardim",
        "do mar|do norte|dos lobos|da manhã|dos esquecidos|de inverno|do padeiro|da meia-noite",
    ),
    _language(
        "Japanese",
        "ja",
        "Akio Chiyo Daigo Emi Fumiko Goro Haruka Isamu Junko Kaoru Mitsu Noboru Reiko Saburo Tomoe Umeko Wataru Yuji",
        "Kita Naga Mori Shima Kuro Asa Hoshi Taka Iwa Mina Oku",
        "moto yama kawa zawa shita bayashi hara",
        "Eiga|Film|Kobo|Pictures",
        "Yoru no|Umi no|Kaze no|Haru no|Saigo no|Mukashi no|Shizuka na|Tooi|Ame no",
        "tegami|machi|michi|hana|tsuki|uta|kioku|eki|niwa",
    ),
    _language(
        "Hindi",
        "hi",
        "Aarti Bhuvan Charu Devika Eshan Farida Girija Harish Indu Jatin Kavita Lalit Meera Naveen Ojas Padma Rohan "
        "Sunita "
        "Tarun Urmi Varun Yamini",
        "Chand Ragh Dev Mal Sur Bhat Kul Nar Pra Vish",
        "ani avan kar wala endra ekar oria",
        "Talkies|Films|Chitra|Movies",
        "Dil ka|Raat ki|Pyaar ka|Sapnon ka|Zindagi ka|Mausam ka|Shehar ki|Tere|Do pal ka",
        "safar|kahani|sheher|rang|intezaar|mela|raahi|dastaan|geet",
    ),
    _language(
        "Tamil",
        "ta",
        "Anbu Bharathi Chitra Ezhil Gomathi Ilango Kayal Maran Nila Oviya Pari Selvi Thamarai Vetri",
        "Arul Kan Mut Pal Sel Thir Vel",
        "samy appan arasan aiyan umar",
        "Arts|Films|Kalai|Movies",
        "Kadal|Mazhai|Nila|Kaadhal|Oru|Pudhiya|Vaigai",
        "Kadhai|Paadal|Payanam|Kanavu|Vaasal|Mugam|Paadhai",
    ),
    _language(
        "Korean",
        "ko",
        "Ara-min Bo-reum Da-hyeok Eun-sae Ga-ram Ha-jun In-hwa Ji-ro Kyu-ri Min-soul Na-bin Seo-ram Tae-ran Woo-jae "
        "Ye-dan",
        "Ba Cha Do Gam Hwa Mok Nam Sa Tak Yeo",
        "n ng m k",
        "Film|Pictures|Cine|Works",
        "Bameui|Badaui|Gaeul|Majimak|Uri|Sumeun|Jageun|Meon",
        "pyeonji|norae|gil|yeoreum|kkum|sigan|jeongwon|gieok",
    ),
    _language(
        "Mandarin",
        "zh",
        "Aihua Baolin Chunmei Daifu Enming Fenglan Guowei Huilin Jingyi Kaiwen Lifang Mingze Nianzu Peizhen Ruolan "
        "Shuchen "
        "Tianyu Wenjun Xiaobo Yulan Zhihao",
        "B Ch D F H L M Q Sh T W Zh",
        "ai an eng ing uo ao",
        "Films|Pictures|Film Group|Media",
        "Ye li de|Hai bian de|Chuntian de|Zuihou de|Yuan fang de|Wuyan de|Mu qin de",
        "xin|ge|lu|meng|ji yi|deng|huayuan|xia tian",
    ),
    _language(
        "Swedish",
        "sv",
        "Alva Birger Cajsa Dag Elin Folke Gunnel Hjalmar Ingrid Jonte Kerstin Love Märta Nore Pontus Ragna Sixten "
        "Tuva Ulrik",
        "Lind Berg Sjö Ek Ny Sand Hall Ög Strand Al",
        "qvist ström gren lund dahl mark",
        "Film|Filmindustri|Produktion|Ateljé",
        "Huset|Tystnaden|Skuggan|Barnen|Sista tåget|Minnet|Sommaren|Ett brev|Trädgården",
        "vid havet|i norr|i vargarnas land|om morgonen|i vinter|vid midnatt|på andra sidan",
    ),
)
"""Every language, those of the name pools and those only spoken."""
