"""Words that end in a stop without ending a sentence, and words that begin one: the knowledge of the splitter.

All are written without their last stop. Languages share one table, because a corpus mixes them; what is a common word in
one of them ("ago", "sun", "est") is left out. Single letters are not listed: every one may be an initial.
"""

__all__ = ["BEFORE_NAME", "BEFORE_NUMBER", "MAYBE_LAST", "ORDINAL_FOLLOWERS", "STARTERS", "TITLES"]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TITLES = _words("""
    Mr Mrs Ms Messrs Dr Drs Prof Profs Rev Revd Fr Hon Gen Col Maj Capt Cpt Cmdr Lt Sgt Cpl Pvt Gov Sen Sens Rep Reps Det
    Mme Mmes Mlle Mlles Mgr Msgr Mons Sr Sra Srta Sres Dra D.ª Dña Ud Uds Sta Ste Sto Sig Sigg Dott Dott.ssa Ing Avv Exmo
    Dhr Mevr Hr Hrn Frl Dipl Doç Yrd Sn Av Pres Supt
""")
"""A name follows: "Mr. Smith". Only as written here: Swedish sentences end in "hon"."""

BEFORE_NAME = _words("""
    dr prof ing mw drs dipl им св тов акад проф доц ул пл наб пос англ лат нем фр греч исп ит яп
    e.g i.e viz cf vs incl excl esp resp z.b d.h i.d.r u.a s.o s.u m.e sog sogen bzw vgl evtl ggf insb zzgl bspw p.ex p.ej
    c.-à-d т.е т.к напр см ср bijv d.w.z m.b.t esim ks örn bkz
""")
"""Something always follows, small letters or capitals: "e.g. Rome"."""

BEFORE_NUMBER = _words("""
    no nos nr nrs num núm n° nº vol vols ch chap chaps sec secs art arts fig figs eq eqs pp pg pgs par para ver vers
    bd bde kap abb tab abs ff ziff anm aufl pág págs cap pag tav стр рис табл гл ст bl blz hfst sayı madde
    approx ca circa aprox env ок ed eds op tel ext jan feb mar apr jun jul aug sep sept oct nov dec
""")
"""A number follows, or else the sentence ends: "No. 5", but "He said no."."""

MAYBE_LAST = _words("""
    etc inc ltd co corp bros jr esq st mt ft ave blvd rd sq dept univ assn al cie govt
    jan feb apr jun jul aug sep sept oct nov dec jän mär okt dez janv févr juil déc
    gmbh mbh usw u.s.w o.ä u.ä dgl mio mrd tsd jh jhdt chr str nachf geb gest verh
    ecc srl e.d cs n.chr v.chr j.-c b.v n.v ş şti vd vb yy ym jne
    гг вв др пр тыс млн млрд трлн руб коп кв эт чел км кг см мин т.д т.п н.э
""")
"""May end a sentence: it does when a word follows that begins one ("the U.S. The …")."""

ORDINAL_FOLLOWERS = _words("""
    Januar Jänner Februar März April Mai Juni Juli August September Oktober November Dezember Jan Feb Apr Jun Jul Aug Sep
    Sept Okt Nov Dez Jahrhundert Jahrhunderts Jahrhunderte Jh Jahrtausend Jahrtausends Weltkrieg Weltkriegs Weltkrieges
    Geburtstag Platz Rang Klasse Stock Kapitel Auflage Band Teil Bezirk Liga Bundesliga Armee Division Etage Runde Minute
    Tag Woche Monat Jahr Lebensjahr Ocak Şubat Mart Nisan Mayıs Haziran Temmuz Ağustos Eylül Ekim Kasım Aralık Lig Yüzyıl
    Dünya
""")
"""Capitalised words before which a number and a stop are an ordinal: "3. Oktober"."""

STARTERS = _words("""
    The This That These Those A An It Its He She They We You I His Her Their Our My Your But And Or So Yet In On At By For
    From To With Without Within After Before During Since Until While When Where Why What Who Which How However Although
    Though Because If As Then Thus Therefore Hence Moreover Furthermore Meanwhile Instead Also Another Other Others Some Many
    Most Much Few Several All Both Each Every No Not Nor Once One Two Three There Here Today Later Now Under Over Between
    Among Despite According Upon Such Only Even Is Are Was Were Has Have Had Do Does Did Can Could Will Would Should May
    Let Suppose Consider Note Given Assume Define See Use Using Return Returns
    Der Die Das Den Dem Des Ein Eine Einen Einem Er Sie Es Wir Ich Ihr Seine Sein Ihre Im Am Auf Aus Bei Mit Nach Von Vor Zu
    Zum Zur Für Um Über Unter Und Aber Oder Doch Als Wenn Weil Da Dass Dies Diese Dieser Dieses Dort Hier Nun Auch Nur Noch
    Seit Wie Was Wer Wo Warum Man Alle Viele Einige Nicht Kein Keine Bis Während Obwohl Jedoch Dabei Damit Danach
    Le La Les Un Une Des Il Elle Ils Elles Nous Vous Je Tu Ce Cet Cette Ces Son Sa Ses Leur Leurs Dans En Sur Sous Par Pour
    Avec Sans Et Mais Ou Donc Car Si Quand Comme Au Aux À Après Avant Selon Depuis Lorsque Cela Ainsi Toutefois Puis
    El Los Las Lo Una Unos Unas Él Ella Ellos Ellas Yo Nosotros Se Su Sus Este Esta Esto Estos Estas Ese Esa Eso Con Sin Por
    Para Según Desde Hasta Y O Pero Aunque Cuando Donde Como Al Del Tras Entre También Hay Ya
    Gli Uno Nel Nella Nei Di Per Tra Fra Ma Anche Questo Questa Quando Dopo Però Os Um Uma Na Nos Nas Ele Ela Eles Não Mas
    Isso Após Também Het De Een Hij Zij Ze Dit Dat Deze Maar Ook Naar Van Voor Met Bij Toen
    В На С К О У И А Но Он Она Они Оно Мы Вы Я Ты Это Этот Эта Эти Тот Та Те По Из За От До Для При Под Над Без Через После
    Перед Во Со Ко Об Как Так Что Кто Где Когда Если Хотя Также Однако Потом Затем Его Её Ее Их Не Ни Все Всё Был Была Было
    Были Есть Тогда Там Здесь Сейчас Или Среди Между
    Hän Ne Tämä Nämä Ja Mutta Kun Jos Myös Siitä Sen Ei Oli Bu Şu Bir Ve Ama Ancak Fakat İlk Daha Onun
""")
"""Words that, capitalised after a possible abbreviation, begin a sentence."""
