"""Patterns of multiple-choice responses that state, suggest, set aside or deny a choice (``core.agents.mcq``).

They come from responses of models and from examples of this project, some in other languages. They search texts in
lower case without accents, in which one mark (a character of the private use area) replaces each mentioned choice.
Every quantifier is bounded, so a search takes linear time for any text. A denial here sets a choice aside, also in
other languages; for the denial of a finding see ``core.text.negation``.
"""

from __future__ import annotations

import re

X = "[\ue000-\uf03f]"
"""A mark: a name's, or a letter's from U+F000 on."""

MARK = re.compile(X)
WORD = re.compile(r"[a-z]+")
NEAR = r"(?: ?\([^()\n\ue000-\uf03f]{0,60}\))?"
"""An aside in brackets, as of an abbreviation."""
IF = r"(?: if [^.\n,;()\ue000-\uf03f]{0,60})?,?"
AND = (
    r"(?: ?[,/&+] ?(?:(?:and|or|and/or|nor|&) )?(?:an? |the )?"
    r"| (?:and|or|and/or|nor|vs\.?|versus|oder|und|ou|et|o|y|e|v) (?:an? |the )?(?:possibly |even )?)"
)
GROUP = re.compile(rf"{X}(?:{NEAR}{IF}{AND}(?:(?:option|choice)s? )?[(]?{X}[)]?){{0,12}}")
MARKUP = '_|*`#~{}$\\"'
"""Characters of markup; the first two can separate words."""
SPACES = re.compile(r"  +")
TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z_ ]{0,24})/?>")
COMMAND = re.compile(r"\\[A-Za-z]{1,12} ?\{?|\\[()\[\]]")
BOLD = re.compile(r"\*\*([^*\n]{1,200})\*\*")
GOES_ON = re.compile(r" [a-z]")
LABEL = re.compile(r"[\uf000-\uf03f][ ).:,'\[(-]{0,6}[\ue000-\uefff]|[\ue000-\uefff] ?[(\[][\uf000-\uf03f][)\]]")

# States an answer: a noun or an adjective, a form of "to be", and filler words, right before a choice.
NOUN = (
    r"(?:answer|diagnos[ei]s|choice|option|selection|pick|conclusion|verdict|response|impression|decision|guess"
    r"|treatment|therapy|test|step|management|drug|medication|agent|cause|etiology|organism|pathogen|explanation"
    r"|mechanism|finding|condition|disorder|disease|syndrome|intervention|study|examination|procedure|culprit"
    r"|complication|factor|result|match"
    r"|antwort|losung|reponse|respuesta|risposta|resposta|antwoord|svar|odpowiedz|ответ|答案|回答|答え|正解|选项|選択肢|정답"
    r"|diagnose|diagnostic|diagnostico|diagnosi|диагноз|诊断|診断|opcion|opzione|opcao|choix)"
)
BEST = (
    r"(?:likely|likeliest|best|correct|right|final|appropriate|probable|indicated|suspected|suitable|accurate|preferred"
    r"|first-line|next|initial|primary|leading|top|my|recommended|definitive|consistent|plausible|strongest|fitting"
    r"|effective|specific|sensitive)"
)
IS = (
    r"(?: ?(?::|=|->)| -(?= )"
    r"| (?:is|are|was|be|remains?|ist|lautet|sind|est|sont|es|son|e|er|war)(?=[ :(\[\"'\ue000-\uf03f])"
    r"| ?(?:是|为|は|が|為|選択|应该是))"
)
FILLERS = (
    "the|an|a|to|be|that|of|either|both|option|choice|letter|answer|number|likely|most|probably|indeed|thus|clearly"
    "|definitely|therefore|still|it|is|it's|this|actually|probable|simply|just|given|as|und|die|der|das|la|le|el|il"
    "|opcion|les|los|perform|obtain|administer|start|begin|initiate|give|due|diagnosis|presence|possibility|patient|has|have"
    "|suspected|acute|possible|possibly|follows|initially|now|best|correct|between"
)
FILL = rf"(?:[ \n'(\[,:*-]|\b(?:{FILLERS})\b){{0,14}}"
STATES = re.compile(rf"(?:(?<![a-z]){NOUN}s?(?![a-z])|\b{BEST}\b)[^:\n\ue000-\uf03f]{{0,110}}?{IS}{FILL}$")
_OF_ANSWER = (
    r"(?:answers?|diagnos[ei]s|choice|option|conclusion|respuesta|opcion|diagnostico|antwort|losung|diagnose|reponse"
    r"|choix"
    r"|resposta|alternativa|gabarito|opcao|risposta|opzione|diagnosi|antwoord|答案|回答|答え|正解|正答|诊断|診断)"
)
_RANK = (
    r"(?:(?:the|my|so|thus|therefore|hence|final|correct|right|best|single|most likely|likeliest|definitive|selected"
    r"|la|el|le|die"
    r"|der|a|o|il|correcta|richtige|bonne|correcte|correta|certa|corretta|juste|finale?|definitiva|endgultige) ?){0,5}"
)
LABELLED = re.compile(
    rf"[^a-z0-9]{{0,12}}{_RANK}{_OF_ANSWER}"
    rf"(?: (?:final|finale|correcta|correcte|correta|certa|corretta|choice|option))?"
    rf"(?:(?P<sign> ?[:=-]| ?->|：)|{IS}){FILL}"
)
"""The label of an answer at the beginning of a line or sentence: "The correct answer is (", "Final diagnosis: "."""
OPENING_LINE = re.compile(rf"\W{{0,6}}?{GROUP.pattern}[ .,;:)\]!-]{{0,4}}\n(?!\W{{0,6}}[\ue000-\uf03f](?! [a-z]))")
"""A choice alone in the first line, and another line that is no entry of a list of choices."""
TAKES_BACK = re.compile(
    r"(?:[.!?…\n-] ?(?:wait|no,|hmm|actually|correction|sorry)\b|\bon (?:reflection|second thoughts?|closer look)\b"
    r"|\b(?:i (?:was|am) (?:wrong|mistaken)|i (?:change|changed|revise|correct|take back) my|reconsider\w{0,4}"
    r"|my mistake|scratch that|i take (?:it|that) back)\b)"
)
TAKES_BACK_OR_TURNS = re.compile(rf"{TAKES_BACK.pattern}|[.!?\n] ?(?:but|however|yet|though|still)\b")
ANSWERS = re.compile(
    rf"(?:^[^A-Za-z0-9]{{0,12}}{_RANK}{_OF_ANSWER}\b[^\w\n]{{0,8}}(?::|\bis\b|\n|$)"
    rf"|\b(?:final|correct|right|best) {_OF_ANSWER}\b|{TAKES_BACK.pattern})",
    re.IGNORECASE | re.MULTILINE,
)
"""A label of an answer, or words that take one back: only a heading after the last of them begins an explanation."""
HEADING = re.compile(
    r"(?:^[^A-Za-z0-9]{0,8}|(?<=[.,;!?>})\]*\"]) ?[^A-Za-z0-9\n]{0,6})(?:"
    r"(?:explanations?|rationale|reasons?|reasoning|justifications?|discussion|analysis|comments?|notes?|because|why"
    r"|explicaci(?:on|ones)|justificaci(?:on|ones)|razonamiento|razon(?:es)?|por que|comentarios?|begrundung(?:en)?"
    r"|erklarung(?:en)?"
    r"|explications?|raisonnement|pourquoi|explicac(?:ao|oes)|justificativas?|raciocinio|spiegazion[ei]|motivazion[ei]|perche"
    r"|uitleg|toelichting|解析|解释|理由|説明|解説)\b[^:：\n]{0,60}[^\w\n]{0,4}(?:[:：\n>]|$))"
    r"|^[^A-Za-z0-9\n]{0,8}[A-Za-z][^:.\n]{0,50}:",
    re.IGNORECASE | re.MULTILINE,
)
"""A heading that can begin an explanation: a word for one, or any words before a colon at the beginning of a line."""
# The choice of the speaker, and words that introduce a conclusion.
CHOOSES = re.compile(
    r"(?:\b(?:choos(?:e|es|ing)|chose|pick(?:s|ed|ing)?|select(?:s|ed|ing)?|go(?:ing)? (?:ahead )?with|went with"
    r"|opt(?:s|ed|ing)? for|say|answer(?:ing|ed)?|think|believe|favou?r(?:s|ed|ing)?"
    r"|lean(?:s|ing)? (?:more )?(?:toward?s?|to)"
    r"|conclud(?:e|es|ed|ing)(?: that)?|vot(?:e|ing) for|bet(?:ting)? on|settl(?:e|es|ed|ing) (?:on|for)|guess(?:ing)?"
    r"|recommend(?:s|ed|ing)?|therefore|thus|hence|so|consequently|ergo|finally|in conclusion|in summary"
    r"|leaves(?: us)?(?: with)?|leaving|narrow\w{0,5} (?:it |this )?(?:down )?to|can only be|must be|has to be"
    r"|then|on reflection|on second thoughts?|(?:actually|wait)(?:,? no)?"
    r"|mark(?:ing)?|wahle|nehme|choisis|elijo|elegiria|escolho|scelgo|diagnose|diagnosing|commit(?:ting)? to)\b"
    rf"|我?选择?|我選|->) ?{FILL}$"
)
# Suggested by findings: counts if the response states no answer.
POINTS = re.compile(
    r"\b(?:consistent with|compatible with|suggest(?:s|ing|ed|ive of)?|point(?:s|ing|ed)? (?:to|toward?s?)"
    r"|indicat(?:es?|ing|ive of)|in keeping with|diagnos(?:is of|ed with)|likely|probabl[ey]|presumabl[ey]"
    r"|suspect(?:s|ed|ing)?|fits?|supports?|match(?:es)?|typical (?:of|for)|characteristic of|classic (?:of|for)"
    r"|hallmark of|suffer(?:s|ing)? from|treated with|(?:it|this|patient|he|she|treatment|test|step) (?:is|has|was)"
    r"|it's|he's|she's|would be|should be|must be|will be|has|have|requires?|needs?|order|start|give|perform|obtain"
    rf"|consider) ?{FILL}$"
)
# A statement after a choice that calls it the best.
IS_BEST = re.compile(
    rf"{NEAR}[\"')\]]{{0,3}}(?:"
    r"(?:,? (?:therefore|thus|then|indeed|clearly|however),?)? "
    r"(?:is|are|was|be|seems?|appears?|looks|would be|remains?|should be|must be|ist|est|es) "
    r"(?:(?:to|be|the|my|your|our|a|by|far|clearly|therefore|thus|indeed|probably|definitely|likely|still|also|single"
    r"|overall|what|i'd|i|would|here|la|die|der|das|ma|mi|only) ){0,5}"
    r"(?:correct|right\b|best|likeliest|answer|final|choice|diagnosis|choose|pick|go with|top|leading|preferred"
    r"|indicated|appropriate|reponse|richtig|antwort|correcta|respuesta|risposta"
    r"|(?:most|more) (?:likely|probable|appropriate|consistent|suitable|accurate|plausible|compatible|fitting|strongly)"
    r"|(?:strongly|highly) (?:suggested|likely))"
    r"| it is\b(?! \w{1,12}ly\b)"
    r"| (?:best |clearly |most |alone )?(?:fits?|match(?:es)?|explains?|accounts? for|satisf\w{2,5})\b"
    r"(?! (?:some|only|part|many|several))"
    r"| ?(?:[-:,(] ?)?(?:this is )?(?:(?:the )?(?:most likely|correct|best|right)\b|✓|✔|✅)"
    r"| ?(?:是|が|は)?(?:正确|正解|最))"
)
# Weakens or cancels a statement.
BLUNTS = re.compile(
    r"\b(?:least|less|not|never|unlikely|incorrect|wrong|other|another|second|alternative|differentials?|exclud|eliminat"
    r"|if|unless|whether|otherwise|distractor|tempting|except|none|neither|no(?![:,]))\b|n't\b|\?"
)
CONDITION = re.compile(r"\b(?:if|unless|whether|otherwise|when)\b")
# Not a real condition ("if I had to choose").
FORCED = re.compile(
    r"(?<![a-z])if (?=(?:i|we|you|one|an?|it)\b[^,.\n\ue000-\uf03f]{0,40}"
    r"\b(?:to|must|forced|pick|picked|choose|chosen|guess|had)\b)"
)

# Before or after a choice: denies it, or lists it next to the answer.
GAP = r"(?: (?!but\b|because\b|so\b|therefore\b)[^ \n.;:,()\ue000-\uf03f]{1,30}){0,6}"
DENIED_BEFORE = re.compile(
    r"\b(?:(?:not(?! (?:only|just|merely|sure|certain|entirely|hesitate))|\w{2,8}n't|cannot|never|neither|nor"
    r"|no(?! (?:doubt|question)|[:,])|without|unlikely|(?:less|least)(?= (?:likely|probable|consistent|suggestive))"
    r"|rul(?:es?|ed|ing) out|exclud(?:es?|ed|ing)|eliminat(?:es?|ed|ing)|rather than|instead of|as opposed to|unlike"
    r"|against|other than|except|incorrect|wrong|inconsistent with|rejected?|differ(?:s|ent)? from|distinguish\w{0,4}"
    rf"|differentiat\w{{1,4}}|ausgeschlossen|kein|nicht|none|irresponsible|premature|impossible|reluctant|refuse){GAP}"
    # only listed next to the answer
    r"|(?:other|alternative|remaining|additional|competing|wrong|incorrect) (?:\w{1,20} ){0,2}?"
    r"(?:choices?|options?|conditions?|possibilit(?:y|ies)|causes?|diagnos[ei]s|answers?|etiologies|disorders?|diseases?"
    r"|considerations?|differentials?|letters?|ones|tests?|treatments?|infections?)"
    r"(?:,? (?:mentioned|listed|given|provided|here))?"
    r"(?:,? (?:such as|like|including|include|are|being|could be|might be|may be)|[,:]| -){0,2}"
    r"|(?:the )?others,?|differentials?(?: diagnos[ei]s)?(?: \w{1,12})?:?|alternatives?(?: \w{1,12})?:?"
    r"|(?:could|may|might|can) also (?:be|represent|suggest|indicate))[ (\"']{0,3}$"
)
DENYING = frozenset(
    "not t irresponsible premature impossible reluctant refuse cannot never neither nor no without unlikely"
    " less least out exclude excludes excluded excluding eliminate eliminates eliminated eliminating rather"
    " instead opposed unlike against other except incorrect wrong inconsistent reject rejected differ differs"
    " different distinguish distinguishes differentiate differentiates differentiating distinguishing"
    " ausgeschlossen kein nicht none alternative alternatives remaining additional competing others"
    " differential differentials also".split()
)
"""A choice without one of these words before it is not denied; this quick test comes first."""
DENIED_AFTER = re.compile(
    rf"{NEAR}[)\"']?(?: ?\((?:incorrect|wrong|unlikely|less likely|ruled out|excluded|false|no)\b"
    r"|(?: ?[:,-]{1,2}| -)? ?(?:"
    r"(?:(?:itself |also )?(?:is|are|was|were|be|seems?|appears?|looks?|becomes?) )?"
    r"(?:(?:both|all|therefore|thus|very|much|clearly|highly|far|quite|typically|usually|more|made|considered) ){0,2}"
    r"(?:not\b(?! (?:\w{1,12} ){0,2}[\ue000-\uf03f])|unlikely|less\b|least\b|incorrect|wrong|inconsistent|ruled out"
    r"|excluded|improbable|eliminated|out\b|contraindicated|inappropriate|false\b|rarely|absent|too |n't|implausible"
    r"|[x✗✘❌](?=\W|$))"
    r"|(?:does|do|did|would|can|could|has|have|should|will|may) ?(?:not\b|n't)|cannot\b|(?:is|are|was|were)n't\b"
    r"|(?:can|could|would|may|might|should|must) (?:\w{1,12} ){0,2}(?:excluded|ruled out|eliminated|rejected|discarded)"
    r"|lacks?\b|also (?!known|called|referred|termed)))"
)
TELLING = frozenset(
    "( [ is are was were be seem seems appear appears look looks become becomes would remain remains should"
    " must can could may might will cannot do does did has have therefore thus then indeed clearly however it"
    " fit fits match matches explains explain account accounts satisfies best most alone ist est es both all"
    " very much highly far quite typically usually more made considered not unlikely less least incorrect wrong"
    " inconsistent ruled excluded improbable eliminated out contraindicated inappropriate false rarely absent"
    " too implausible x isn't aren't wasn't weren't doesn't don't didn't wouldn't can't couldn't hasn't haven't"
    " shouldn't won't lack lacks also itself this the correct right no".split()
)
"""A choice followed by any other word is neither denied nor called the best; this quick test comes first."""
LEADING = frozenset(
    f"{FILLERS}|are|was|remain|remains|ist|lautet|sind|est|sont|es|son|e|er|war|choose|chooses|choosing|chose"
    "|pick|picks|picked|picking|select|selects|selected|selecting|with|for|say|answering|answered|think|believe"
    "|favor|favors|favour|favours|favoring|favouring|toward|towards|conclude|concludes|concluding|concluded|on"
    "|guess|guessing|recommend|recommends|recommended|hence|so|consequently|ergo|finally|conclusion|summary"
    "|leaves|us|leaving|then|reflection|thought|thoughts|actually|wait|no|mark|marking|wahle|nehme|choisis|elijo|elegiria"
    "|escolho|scelgo|diagnose|diagnosing|committing|in|".split("|")
)
"""Last words before the choice in a statement of an answer, which can also end in a colon or similar sign."""
SINGULAR = re.compile(r"[)\"']?(?: ?[:,(-]{1,2})? ?(?:\w{1,12} )?(?:is|was|does|has|seems|appears|lacks)\b")
JOINED = re.compile(r"\b(?:and|or|nor)\b|&|/")

DOUBTING = DENYING - {"t", "out"} | frozenset(
    "if whether could may might can can't couldn't don't doesn't isn't wasn't aren't won't not, possible"
    " possibly such like including some sorry unable decline consider considered (not not: neither: wrong."
    " incorrect. unlikely. no, not: incorrect, wrong, excluded. excluded, possible. possible, first-line".split()
)
"""A response that names one choice and has none of these words means that choice."""
# Typical positions of an answer.
HEADED = re.compile(
    rf"^([> -]{{0,8}}(?:(?:the|my|final|correct|best|most likely|selected) ){{0,3}}{NOUN}(?: is)?)[: .-]{{0,6}}\n",
    re.MULTILINE,
)
NOUN_AT = re.compile(NOUN)
NEXT_LINE = re.compile(rf"[ .,;]{{0,4}}\n[ >.-]{{0,4}}{GROUP.pattern}[ .]{{0,4}}(?=\n|\Z)")
ALL = re.compile(
    r"\b(?:all of the above|all of these|all (?:four|five|of the) (?:options|choices|answers)\b)", re.IGNORECASE
)
TICK = re.compile("[✓✔✅☑]")
ONLY_IF = re.compile(rf"{NEAR},? ?\(?(?:only )?if (?!i |we |you )")
ANNOUNCED = re.compile(r":[ '(-]{0,3}$")
LAST = re.compile(r"\W{0,6}\Z")
ALONE_BEFORE = re.compile(
    r"[^a-z0-9\ue000-\uf03f]{0,8}"
    r"(?:(?:option|choice|final answer|probably|likely|most likely|possible|possibly)[: ]{1,2})?"
    r"[^a-z0-9\ue000-\uf03f]{0,3}"
)
ALONE_AFTER = re.compile(rf"{NEAR}[)\]'\"]{{0,3}}(?:[.!;]? ?\n|[.!] |[.!;]? ?\Z)")
OPENING = re.compile(rf"\W{{0,6}}?{X}")
# Answers outside the choices.
NONE_FITS = re.compile(
    r"\bnone of (?:the|these|those|them|my)\b"
    r"|\bno (?:correct |right |suitable |matching )?(?:answer|diagnosis|choice|option)\b"
    r"|\b(?:not|n't|unable to|cannot) (?:\w{1,12} ){0,3}(?:provide|give|make|offer|determine|determined|diagnose|answer"
    r"|choose|select|assist|help|listed|among|included|provided|one of|possible|clear)\b|\bi(?:'m| am) sorry\b"
    r"|\bdeclin(?:e|ing)\b"
)
STATES_ANOTHER = re.compile(
    r"(?:final diagnosis|(?:final|correct|best) answer"
    r"|(?:most likely|correct|likeliest) diagnosis(?: [^.:\n\ue000-\uf03f]{0,80}?)?)"
    r"(?:: ?| is )(?![^.,;\n]{0,80}[\ue000-\uf03f])[a-z]"
)
HEDGES = re.compile(r"\b(?:could|may|might|such as|including|like|eg|e\.g|possib\w{1,6}|some)\b|\($")
# Letters that may stand for a choice, and the words before and after such letters.
CAPITAL = re.compile(
    r"[A-Z](?![A-Za-z0-9'])(?<![A-Za-z0-9'][A-Z])"
    r"(?:(?<![AI])|(?! [a-z])|(?<=A)(?= (?:is|or|and|because|seems|fits|would)\b)|(?<=[no] [AI]))"
)
OTHER_LANGUAGES = (
    r"(?:es|e|est|c'est|ist|sind|sera|seria|serait|sarebbe|ware|lautet|wahle|nehme|antworte|elijo|escolho|scelgo|choisis"
    r"|dirais|diria|respuesta|reponse|antwort|resposta|risposta|lettre|letra|lettera|buchstabe|alternativa|opcao|choix)"
    r" (?:(?:la|le|el|a|o|il|die|der|letra|lettera) )?"
)
"""Words before a letter that stands for a choice: "es la B", "a resposta e a B", "die Antwort lautet B"."""
SMALL = re.compile(
    r"[(\[\"'`*:][ (]?[a-z](?![a-z0-9'])|(?:option|choice|letter|answer is|la|le|es|est|ist) [a-z]\b", re.IGNORECASE
)
WORD_BEFORE = re.compile(r"([A-Za-z']+),? $")
BEFORE_LETTER = frozenset(
    "is be was are option options choice choices letter answer the pick choose chose chosen select selected"
    " with for say to between both either neither not than of as therefore so thus hence go over vs versus"
    " choosing picking ist est es e und ou et oder que antwort reponse respuesta then only but rather probably"
    " la likely definitely maybe perhaps think believe it's it him her me on from namely reflection thought"
    " thoughts toward towards zwischen entre actually mark circle mean means correct rejected excluding exclude"
    " eliminate eliminates eliminated because since unlike against out no remains leaves leaving try guess just"
    " diagnosis".split()
)
AFTER_LETTER = (
    "is|was|are|because|since|given|due|or|and|vs|versus|over|seems|appears|fits|would|best|but|if|rather|instead|explains"
    "|matches|may|could|can|cannot|might|remains|looks|does|do|has|which|correct|right|wrong|incorrect|nor|not|most|alone"
    "|here|in|for|on|with|at|by|when|after|this|that|it|i|then|only|too|overall|again|ist|est|es|oder|und|ou|et|y|than|as"
)
