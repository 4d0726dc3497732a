"""The small words of languages: they tell nothing of a text, and tell its language.

A list has function words alone (articles, pronouns, prepositions, conjunctions, auxiliary verbs, words that ask).
"""

import unicodedata
from functools import cache

# Function words alone are listed (articles, pronouns, prepositions, conjunctions, auxiliary verbs, words that ask), so that no
# word is left out that somebody may look for. English has the words that Lucene's EnglishAnalyzer leaves out, and I.
_SMALL_WORDS = {
    "arabic": """في من على إلى عن مع هذا هذه ذلك تلك التي الذي الذين كان كانت يكون تكون ما لا لم لن قد أن إن أو ثم و
        هو هي هم نحن أنت أنا كل بعد قبل بين حتى إذا لكن كما عند غير أي كيف متى أين لماذا هل ليس منذ حيث أيضا
        وقد وكان ولا وفي ومن""",
    "armenian": """և ու կամ է են էր էին եմ ենք եք ես այս այդ այն որ որը որի որոնք մի մեջ համար հետ մասին պետք իր իրենց
        նրա նրանց ինչ ինչպես երբ որտեղ ինչու ոչ նաև բայց եթե ըստ դեպի մինչև հետո նա մենք դու դուք նրանք""",
    "basque": """eta da dira zen ziren du dute zuen zuten bat edo ez ere baina baino hau hori hura hauek horiek izan
        den duen dituen behar egin zer nor non noiz nola zergatik gaur bere beren haren gure zure ni zu gu
        haiek bezala arte gabe oso dago daude""",
    "catalan": """el la els les un una uns unes de del dels i o que en a al als amb per és són va van ha han aquest
        aquesta aquests aquestes això no més com quan on qui què perquè si es se li seu seva seus seves
        entre sobre fins també però era ser hi ho molt jo tu ell ella nosaltres""",
    "danish": """og i at det en et den til er som på de med han af for ikke der var mig sig men har om vi min havde
        ham hun nu over da fra du ud sin dem os op hvor eller hvad skal selv her alle vil blev kunne ind når
        være noget ville deres efter jeg hvem hvordan hvorfor dette denne disse mod også kan bliver""",
    "dutch": """de het een en van in is dat op te zijn voor met niet aan er om ook als dan maar bij door naar uit
        over wordt werd worden heeft hebben had was waren ik je jij hij zij wij we jullie deze dit die wat
        wie waar wanneer hoe waarom kan kunnen zal zou tot nog of geen hun haar mijn zich tegen onder""",
    "english": """a an and are as at be but by for if in into is it no not of on or such that the their then there
        these they this to was will with i""",
    "finnish": """ja on ei se että oli hän en joka mutta ovat kun myös tai niin kuin mitä mikä missä milloin miten
        miksi kuka tämä tämän nämä ne sen niiden hänen heidän minä sinä me te he olla olen olet olemme olisi
        ollut eivät jos sekä vain jo sitä jonka jotka kanssa""",
    "french": """le la les un une des de du et à au aux en dans par pour sur avec sans sous est sont était été être a
        ont avait avoir il elle ils elles on nous vous je tu ce cet cette ces que qui quoi dont où quand
        comment pourquoi ne pas plus ou mais donc si se son sa ses leur leurs mon ma mes notre votre y comme
        entre""",
    "german": """der die das den dem des ein eine einen einem einer eines und oder aber nicht auch ist sind war waren
        wird werden wurde wurden hat haben hatte sein zu zum zur in im an am auf aus bei mit von vom nach
        für über um durch vor als wie wenn dass daß es er sie wir ihr ich du man sich dieser diese dieses
        was wer wo wann warum kann können so nur noch mein dein seine ihre ob""",
    "greek": """ο η το οι τα του της των τον την τους τις και κι να σε στο στη στον στην στα στις στους με από για
        που πως ότι δεν μην είναι ήταν έχει έχουν θα ένα μια ένας ως ή αλλά αν όταν πού πότε γιατί ποιος
        ποια τι αυτό αυτή αυτός αυτά μου σου μας σας""",
    "hindi": """के का की है में से को और पर ने यह वह एक हैं कि था थे थी हो इस उस जो तो भी नहीं ही कर या अपने लिए साथ
        किया गया गई कहा करने हुए होने क्या कैसे कब कहां कौन क्यों हम आप मैं वे ये इन उन तक जब अगर लेकिन""",
    "hungarian": """a az egy és hogy nem is van volt vannak voltak lesz ez ezt azt ezek azok de ha már csak még meg mint
        vagy mert aki ami amely amit akik amelyek mi ki hol mikor hogyan miért ő ők én te mi ti el fel be
        után között alatt szerint által majd kell lehet""",
    "indonesian": """yang dan di ke dari untuk dengan pada adalah ini itu dalam tidak akan oleh juga atau sebagai karena
        ada bisa dapat telah sudah kami kita mereka dia ia saya anda apa siapa mana kapan bagaimana mengapa
        para lebih antara saat tetapi jika bahwa secara hanya""",
    "irish": """agus an na ar ag is le go i do ní bhí tá atá sé sí siad mé tú muid sibh de den don sa san ó ach nó
        mar más nach gur cad cé conas cathain cén fáth seo sin é í iad a faoi leis chun raibh bhfuil""",
    "italian": """il lo la i gli le un uno una di del dello della dei degli delle a al alla ai alle da dal dalla in
        nel nella nei con su sul sulla per tra fra e ed o ma che chi cui non è sono era erano ha hanno
        essere avere si se come quando dove perché cosa questo questa questi queste anche più io tu lui lei
        noi voi loro suo sua""",
    "lithuanian": """ir yra buvo kad iš su į ne bet ar tai kaip už dėl po per nuo apie prie iki jis ji jie jos aš tu mes
        jūs šis ši tas ta kuris kuri kurie kas kur kada kodėl jo jų savo būti bus taip dar jau tik o pagal""",
    "nepali": """को का की मा ले लाई र छ छन् थियो थिए हो हुन् गर्न गरेको गर्ने भएको यो त्यो यस त्यस पनि एक बाट देखि
        सम्म तर वा कि के कसरी कहिले कहाँ किन म तिमी हामी उनी उनले गरी हुने भने साथ लागि""",
    "norwegian": """og i det på som er en til å han av for med at var de ikke den har jeg om et men så seg hun hadde fra
        vi du kunne da ut når være kom opp eller hva skal selv her alle vil ble mot etter noe ville deres
        hvem hvor hvordan hvorfor dette denne disse også kan blir ved etter""",
    "portuguese": """o a os as um uma uns umas de do da dos das em no na nos nas por pelo pela para com sem sob e ou mas
        que quem não é são foi era ser está estão tem têm ter se seu sua seus suas como quando onde porque
        qual ao à aos às este esta isso isto esse essa mais também eu tu ele ela nós eles já""",
    "romanian": """și în de la cu pe din pentru nu este sunt era au a fi un o unei unui al ale ai lui ei lor că care ce
        cine unde când cum dacă sau dar mai să se s-a prin după între către acest această acestea aceste eu
        tu el ea noi voi fost""",
    "russian": """и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по её ее мне было вот
        от меня о из ему когда ли если уже или ни быть был до вас для мы их чем была были где кто почему это
        этот эта эти тот при также которые который которая является""",
    "serbian": """i u je da se na za su od sa kao ne koji koja koje ali ili iz po bi biti bio bila bilo nije što šta
        ko gde kada kako zašto ovo to taj ta te ovaj ova on ona ono oni mi vi ja ti sam si smo ste do o pri
        kod и у је да се на за су од са као не који која које али или из по би бити био била било није што
        шта ко где када како зашто ово то тај он она ја""",
    "spanish": """el la los las un una unos unas de del y e o u que en a al con por para sin sobre entre es son fue
        era ser está están ha han haber no se su sus le les lo me te nos mi tu como cuando donde quien cual
        qué cómo cuándo dónde quién porque más pero si también este esta estos estas eso esto yo él ella""",
    "swedish": """och i att det som en på är av för med den till inte har de om ett han var men sig från vi så kan man
        när år hon under också efter eller nu sin där vid mot ska skulle kommer ut får finns vara hade alla
        andra mycket än här då sedan över bara in blir upp även vad vem hur varför denna detta dessa jag du""",
    "tamil": """ஒரு என்று மற்றும் இந்த இது என்ற அந்த அது உள்ள கொண்டு என இருந்து அவர் அவர்கள் நான் நாம் நீங்கள் அவன்
        அவள் என்ன யார் எங்கே எப்போது எப்படி ஏன் ஆனால் அல்லது போன்ற பற்றி மூலம் வரை இல்லை ஆகும் இருந்தது
        முதல் பின்னர்""",
    "turkish": """ve bir bu da de için ile olarak olan çok daha en gibi kadar ama ise ya veya ki ne mi mı mu mü değil
        var yok her o şu ben sen biz siz onlar bunu buna bunun onun kim nasıl neden nerede hangi sonra önce
        göre oldu olduğu olduğunu tarafından ancak""",
    "yiddish": """און די דער דאָס אין פֿון איז צו מיט אַז נישט ניט אויף ער זי זיי מיר איר איך דו האָט האָבן זענען
        געווען אַ אַן וואָס ווער וווּ ווען ווי פאַר פֿאַר נאָך אָבער אויב אָדער זיך דעם זיין""",
}  # fmt: skip


@cache
def stop_words(language: str) -> frozenset[str]:
    """Return the words of a language that tell nothing, their case folded; none of a language without a list."""
    return listed(_SMALL_WORDS.get(language, ""))


def listed(words: str) -> frozenset[str]:
    """Return the words of a list of stop words, their case folded."""
    return frozenset(unicodedata.normalize("NFKC", word.casefold()) for word in words.split())


WITHOUT_STEMMER = {
    "afrikaans": "die en van in is nie het dat vir om te met sy as word ook aan op hierdie was wat moet kan",
    "bulgarian": "на и да се за от с по не е са като че ще или при това този към със във която който бъде",
    "czech": "a se v na je že o do s z i k pro ve za by jsou jako po nebo od při není ale který která které byl jen",
    "esperanto": "la de kaj en ne al por estas kun aŭ ke ĉi el tiu ĝi per ni vi mi kiu",
    "estonian": "ja on ei ka et see oli kui või ning mis ta aga seda mida nii oma ole kes",
    "galician": "o a e de que do da en un unha dos das para con non se na no por ao os as máis como é está xa foi polo pola",
    "icelandic": "og að í á er til um við sem ekki en það var með fyrir af hann eru frá eða úr þú",
    "latvian": "un ir ar no uz par ka nav vai kas tiek pie pēc bet lai kā tas šo arī ja",
    "macedonian": "на и да се за од со не е во што или како ќе кој која ова оваа при но беше",
    "polish": "i w nie na się z do że o jest to jak za od po przez dla nie ma są oraz lub przy ale czy który",
    "slovak": "a sa v na je že s z o do pre nie sú ako alebo pri po ale ktorý ktorá ktoré bol nebol nie je od",
    "slovene": "in je na za se da so ni v z po s ki bi od pri kot ali ter bo biti to tudi ne iz",
    "ukrainian": "і в на та що не з до у як це за від є для його або чи про який яка але бути й",
    "welsh": "y yn i ar o a yr ei am gan wedi oedd ac nid yw neu mae fod hwn hon",
}
"""Of languages without a stemmer, so that none of them is taken for its neighbour."""


_ASK = "how what when where which who whom whose why how's what's where's who's"
_ASKED = """am been being could did do does done had has have having should would he her him his its me my our she them we you
    your about any from so some than aren't can't couldn't didn't doesn't don't hadn't hasn't haven't isn't it's shouldn't
    that's wasn't weren't won't wouldn't"""
"""What a plain question in English has beside the short list of texts; no words with another sense (can, may, must)."""


@cache
def words_that_ask() -> frozenset[str]:
    """Return the English words of which a question has one."""
    return listed(_ASK)


@cache
def asked_words(language: str) -> frozenset[str]:
    """Return the words of a language that tell nothing in a question, their case folded."""
    return stop_words(language) | (listed(_ASK) | listed(_ASKED) if language == "english" else frozenset())


@cache
def languages_of_small_words() -> dict[str, list[str]]:
    """Return of each word that tells nothing in a question of some language these languages."""
    found: dict[str, list[str]] = {}
    for name, listed_ in small_words().items():
        for word in listed_ | asked_words(name):
            found.setdefault(word, []).append(name)
    return found


@cache
def small_words() -> dict[str, frozenset[str]]:
    """Return the function words of every language."""
    return {language: stop_words(language) for language in _SMALL_WORDS} | {
        name: listed(some) for name, some in WITHOUT_STEMMER.items()
    }
