"""Short texts in twelve languages, and ten questions in each: which texts must come first, and which must not come.

A text has an id and a year. A question has its kind, its words, the ids that must come first in any order, and the ids that
must not come at all.
"""

from typing import NamedTuple


class Question(NamedTuple):
    """A question, and what must be answered."""

    kind: str
    asked: str
    first: str  # ids, with spaces between them
    never: str = ""


class Language(NamedTuple):
    """The texts of a language, and ten questions."""

    texts: dict[str, tuple[int, str]]
    questions: tuple[Question, ...]


def _language(texts: str, questions: str) -> Language:
    """Read lines of `id year text`, and lines of `kind | question | first | never`."""
    rows = (line.split(maxsplit=2) for line in texts.strip().splitlines())
    cells = ([cell.strip() for cell in line.split("|")] for line in questions.strip().splitlines())
    return Language({one: (int(year), text) for one, year, text in rows}, tuple(Question(*cell) for cell in cells))


LANGUAGES = {
    "english": _language(
        """
        bread 2019 Knead the dough and bake the bread in a hot oven.
        mill 2020 The mill grinds wheat, and there is hot soup beside the oven.
        boiler 2019 The water flows from the boiler to the kitchen.
        lake 2021 The water of the lake is cold in spring.
        cafe 2020 The café at the harbour opens at six.
        sand 2021 The rivers carry sand to the sea.
        paper 2020 Error E-4021 of the printer: the paper is stuck.
        ink 2020 Error E-4027 of the printer: there is no ink.
        room 2022 The PDFs of the plans are in the last room.
        probe 2022 NASA sends a probe to another planet.
        bees 2021 Bees gather nectar and make honey.
        violin 2018 She plays the violin in an old hall.
        """,
        """
        phrase | "hot oven" | bread | mill
        minus | water -boiler | lake | boiler
        misspelling | necter | bees | violin
        unfinished | nectar vio | violin bees | sand
        code | E-4021 | paper | bread
        marks | cafe | cafe | lake
        inflection | river pdf | sand room | lake
        case | nasa | probe | room
        or | honey OR violin | bees violin | sand
        field | water year:2021 | lake | boiler
        """,
    ),
    "german": _language(
        """
        brot 2019 Den Teig kneten und das Brot im heißen Ofen backen.
        suppe 2020 In der Mühle gibt es heiße Suppe, und der Ofen ist alt.
        kessel 2019 Das Wasser läuft vom Kessel in die Küche.
        see 2021 Das Wasser im See ist im Frühling kalt.
        stadt 2020 Zürich liegt an einem Fluss.
        katze 2021 Zwei Katzen schlafen auf dem Dach.
        papier 2020 Fehler E-4021 des Druckers: das Papier klemmt.
        tinte 2020 Fehler E-4027 des Druckers: die Tinte fehlt.
        plan 2022 Die PDFs mit den Plänen sind im letzten Zimmer.
        weg 2022 Die Straße ist wegen Bauarbeiten gesperrt.
        bienen 2021 Bienen sammeln Nektar und machen Honig.
        geige 2018 Sie spielt Geige in einem alten Saal.
        """,
        """
        phrase | "heißen Ofen" | brot | suppe
        minus | Wasser -Kessel | see | kessel
        misspelling | Necktar | bienen | geige
        unfinished | Nektar Gei | geige bienen | see
        code | E-4021 | papier | brot
        marks | zurich | stadt | see
        inflection | Katze pdf | katze plan | see
        case | STRASSE | weg | stadt
        or | Honig OR Geige | bienen geige | katze
        field | Wasser year:2021 | see | kessel
        """,
    ),
    "french": _language(
        """
        pain 2019 On pétrit la pâte et on cuit le pain dans un four chaud.
        soupe 2020 Au moulin, le four est vieux et la soupe du soir est toujours servie au chaud.
        cuve 2019 L'eau coule de la chaudière vers la cuisine.
        lac 2021 L'eau du lac est froide au printemps.
        cafe 2020 Le café du port ouvre à six heures.
        chat 2021 Deux chats dorment sur le toit.
        papier 2020 Erreur E-4021 de l'imprimante : le papier est coincé.
        encre 2020 Erreur E-4027 de l'imprimante : il n'y a plus d'encre.
        plan 2022 Les PDFs des plans sont dans la dernière salle.
        ecole 2022 L'École ferme pendant les travaux.
        abeilles 2021 Les abeilles ramassent le nectar et font du miel.
        violon 2018 Elle joue du violon dans un vieux théâtre.
        """,
        """
        phrase | "four chaud" | pain | soupe
        minus | eau -chaudière | lac | cuve
        misspelling | nector | abeilles | violon
        unfinished | nectar vio | violon abeilles | lac
        code | E-4021 | papier | pain
        marks | theatre | violon | lac
        inflection | chat pdf | chat plan | lac
        case | ÉCOLE | ecole | cafe
        or | miel OR violon | abeilles violon | chat
        field | eau year:2021 | lac | cuve
        """,
    ),
    "finnish": _language(
        """
        leipa 2019 Vaivaa taikina ja paista leipä kuumassa uunissa.
        keitto 2020 Myllyssä keitto on kuumassa padassa, ja vanha uuni on rikki.
        kattila 2019 Vesi virtaa kattilasta keittiöön.
        jarvi 2021 Järven vesi on kylmää keväällä.
        kyla 2020 Jyväskylä on suuren järven rannalla.
        kissa 2021 Kaksi kissaa nukkuu katolla.
        paperi 2020 Tulostimen virhe E-4021: paperi on jumissa.
        muste 2020 Tulostimen virhe E-4027: muste on loppu.
        kuva 2022 Suunnitelmien PDFs ovat viimeisessä huoneessa.
        tie 2022 ÄÄNEKOSKI sulkee vanhan tien.
        mehi 2021 Mehiläiset keräävät mettä ja tekevät hunajaa.
        viulu 2018 Hän soittaa viulua vanhassa salissa.
        """,
        """
        phrase | "kuumassa uunissa" | leipa | keitto
        minus | vesi -kattilasta | jarvi | kattila
        misspelling | mehilaiste | mehi | viulu
        unfinished | hunajaa viul | viulu mehi | jarvi
        code | E-4021 | paperi | leipa
        marks | jyvaskyla | kyla | kissa
        inflection | kissat pdf | kissa kuva | jarvi
        case | äänekoski | tie | kyla
        or | hunajaa OR viulua | mehi viulu | kissa
        field | vesi year:2021 | jarvi | kattila
        """,
    ),
    "turkish": _language(
        """
        ekmek 2019 Hamuru yoğurun ve ekmeği sıcak fırında pişirin.
        corba 2020 Değirmende sıcak çorba var, fırında ise iş yok.
        kazan 2019 Su kazandan mutfağa akar.
        gol 2021 Gölün su seviyesi ilkbaharda yüksektir.
        sehir 2020 Muğla bir dağın altındadır.
        kedi 2021 Çatıda kediler uyuyor.
        kagit 2020 Yazıcı hatası E-4021: kâğıt sıkıştı.
        murekkep 2020 Yazıcı hatası E-4027: mürekkep bitti.
        plan 2022 Planların PDFs dosyaları son odada.
        il 2022 DİYARBAKIR eski bir kenttir.
        ari 2021 Arılar nektar toplar ve bal yapar.
        keman 2018 O, eski bir salonda keman çalar.
        """,
        """
        phrase | "sıcak fırında" | ekmek | corba
        minus | su -kazandan | gol | kazan
        misspelling | nekter | ari | keman
        unfinished | nektar kem | keman ari | gol
        code | E-4021 | kagit | ekmek
        marks | mugla | sehir | kedi
        inflection | kedi pdf | kedi plan | gol
        case | diyarbakır | il | sehir
        or | bal OR keman | ari keman | kedi
        field | su year:2021 | gol | kazan
        """,
    ),
    "russian": _language(
        """
        hleb 2019 Замесите тесто и испеките хлеб в горячей печи.
        sup 2020 На мельнице варят суп, печи там старые, а вода горячей не бывает.
        kotel 2019 Вода течёт из котла на кухню.
        ozero 2021 Вода озера весной холодная.
        elka 2020 Во дворе стоит ёлка.
        koshka 2021 Две кошки спят на крыше.
        bumaga 2020 Ошибка E-4021 принтера: застряла бумага.
        chernila 2020 Ошибка E-4027 принтера: нет чернил.
        plan 2022 Файлы PDF с планами лежат в последней комнате.
        nasa 2022 НАСА отправляет зонд к другой планете.
        pchely 2021 Пчёлы собирают нектар и делают мёд.
        skripka 2018 Она играет на скрипке в старом зале.
        """,
        """
        phrase | "горячей печи" | hleb | sup
        minus | вода -котла | ozero | kotel
        misspelling | некатр | pchely | skripka
        unfinished | нектар скри | skripka pchely | ozero
        code | E-4021 | bumaga | hleb
        marks | елка | elka | koshka
        inflection | кошка комната | koshka plan | ozero
        case | наса | nasa | plan
        or | мед OR скрипка | pchely skripka | koshka
        field | вода year:2021 | ozero | kotel
        """,
    ),
    "arabic": _language(
        """
        khubz 2019 اعجن الدقيق واخبز الخبز في فرن ساخن.
        hasa 2020 في المطحنة فرن قديم وطعام ساخن دائما.
        ghallaya 2019 يجري الماء من المرجل إلى المطبخ.
        buhayra 2021 ماء البحيرة بارد في الربيع.
        ahmad 2020 كتب أحمد رسالة طويلة.
        qitta 2021 تنام قطط كثيرة فوق السطح.
        waraq 2020 خطأ الطابعة E-4021: الورق عالق.
        hibr 2020 خطأ الطابعة E-4027: لا يوجد حبر.
        madrasa 2022 أغلقت المدرسة أبوابها.
        nasa 2022 ترسل NASA مسبارا إلى كوكب آخر.
        nahl 2021 يجمع النحل الرحيق ويصنع العسل.
        kaman 2018 تعزف على الكمان في قاعة قديمة.
        """,
        """
        phrase | "فرن ساخن" | khubz | hasa
        minus | ماء -المرجل | buhayra | ghallaya
        misspelling | الرحيث | nahl | kaman
        unfinished | الرحيق الكم | kaman nahl | buhayra
        code | E-4021 | waraq | khubz
        marks | احمد | ahmad | madrasa
        inflection | مدرسه | madrasa | kaman
        case | nasa | nasa | waraq
        or | العَسَل OR الكمان | nahl kaman | qitta
        field | ماء year:2021 | buhayra | ghallaya
        """,
    ),
    "hindi": _language(
        """
        roti 2019 आटा गूँधें और रोटी को गरम तंदूर में पकाएँ।
        soop 2020 चक्की पर तंदूर पुराना है और सूप गरम है।
        boiler 2019 पानी बॉयलर से रसोई तक जाता है।
        jheel 2021 झील का पानी वसंत में ठंडा रहता है।
        gaon 2020 वह सड़क गाँव तक जाती है।
        billi 2021 छत पर बिल्लियाँ सोती हैं।
        kagaz 2020 प्रिंटर की त्रुटि E-4021: काग़ज़ फँस गया।
        syahi 2020 प्रिंटर की त्रुटि E-4027: स्याही नहीं है।
        yojana 2022 नक़्शों की फ़ाइलें आख़िरी कमरे में हैं।
        nasa 2022 NASA दूसरे ग्रह पर यान भेजता है।
        shahad 2021 मधुमक्खियाँ पराग लाती हैं और शहद बनाती हैं।
        vayalin 2018 वह पुराने भवन में वायलिन बजाती है।
        """,
        """
        phrase | "गरम तंदूर" | roti | soop
        minus | पानी -बॉयलर | jheel | boiler
        misspelling | वायिलन | vayalin | shahad
        unfinished | शहद वायल | vayalin shahad | jheel
        code | E-4021 | kagaz | roti
        marks | कागज | kagaz | syahi
        inflection | बिल्ली | billi | jheel
        case | nasa | nasa | kagaz
        or | शहद OR वायलिन | shahad vayalin | billi
        field | पानी year:2021 | jheel | boiler
        """,
    ),
    "korean": _language(
        """
        ppang 2019 반죽을 하고 뜨거운 오븐에서 빵을 굽는다.
        supeu 2020 방앗간에는 뜨거운 수프와 오래된 오븐에서 나온 과자가 있다.
        boiler 2019 물은 보일러에서 부엌으로 흐른다.
        hosu 2021 호수의 물은 봄에 차갑다.
        busan 2020 부산에서 배가 떠난다.
        goyang 2021 고양이는 지붕 위에서 잔다.
        jongi 2020 프린터 오류 E-4021: 종이가 걸렸다.
        ingkeu 2020 프린터 오류 E-4027: 잉크가 없다.
        gyehoek 2022 계획서의 PDFs 파일은 마지막 방에 있다.
        nasa 2022 NASA가 다른 행성으로 탐사선을 보낸다.
        kkul 2021 꿀벌은 꽃가루를 모아 벌꿀을 만든다.
        violin 2018 그는 오래된 회관에서 바이올린을 켠다.
        """,
        """
        phrase | "뜨거운 오븐에서" | ppang | supeu
        minus | 물 -보일러 | hosu | boiler
        misspelling | 바이욜린 | violin | kkul
        unfinished | 꽃가루 바이 | violin kkul | hosu
        code | E-4021 | jongi | ppang
        marks | 고양이 ＰＤＦ | goyang gyehoek | hosu
        inflection | 부산은 | busan | hosu
        case | nasa | nasa | gyehoek
        or | 벌꿀 OR 바이올린 | kkul violin | goyang
        field | 물 year:2021 | hosu | boiler
        """,
    ),
    "chinese": _language(
        """
        mianbao 2019 揉好面团，放进热烤箱里烤面包。
        tang 2020 磨坊里有热汤，旁边是旧烤箱。
        guolu 2019 自来水从锅炉流到厨房。
        hupo 2021 春天的湖里自来水很少。
        huoche 2020 ６号火车在早上出发。
        mao 2021 两只猫睡在屋顶上。
        zhi 2020 打印机错误E-4021：纸张卡住了。
        moshui 2020 打印机错误E-4027：没有墨水。
        jihua 2022 计划的PDF文件在最后一个房间。
        nasa 2022 NASA向另一颗行星发射探测器。
        mifeng 2021 蜜蜂采集花粉，酿造蜂蜜。
        tiqin 2018 她在旧礼堂里拉小提琴。
        """,
        """
        phrase | "热烤箱" | mianbao | tang
        minus | 自来水 -锅炉 | hupo | guolu
        misspelling | 小题琴 | tiqin | mifeng
        unfinished | 花粉 小提 | tiqin mifeng | hupo
        code | E-4021 | zhi | mianbao
        marks | 6号 ＰＤＦ | huoche jihua | hupo
        inflection | 猫 | mao | mifeng
        case | nasa | nasa | jihua
        or | 蜂蜜 OR 小提琴 | mifeng tiqin | mao
        field | 自来水 year:2021 | hupo | guolu
        """,
    ),
    "japanese": _language(
        """
        pan 2019 生地をこねて、熱いオーブンでパンを焼く。
        supu 2020 水車小屋には熱いスープがあり、オーブンで菓子も作る。
        boira 2019 水道はボイラーから台所へ続く。
        mizuumi 2021 湖の町に水道が来たのは春だ。
        garasu 2020 ｶﾞﾗｽの窓が割れた。
        neko 2021 二匹の猫が屋根の上で眠る。
        kami 2020 プリンターのエラーE-4021：用紙が詰まった。
        inku 2020 プリンターのエラーE-4027：インクがない。
        keikaku 2022 計画のPDFは最後の部屋にある。
        nasa 2022 NASAは別の惑星へ探査機を送る。
        hachi 2021 蜜蜂は花粉を集め、蜂蜜を作る。
        baiorin 2018 彼女は古い講堂でバイオリンを弾く。
        """,
        """
        phrase | "熱いオーブン" | pan | supu
        minus | 水道 -ボイラー | mizuumi | boira
        misspelling | バイオリソ | baiorin | hachi
        unfinished | 花粉 バイ | baiorin hachi | mizuumi
        code | E-4021 | kami | pan
        marks | ガラス | garasu | inku
        inflection | 猫 | neko | hachi
        case | nasa | nasa | keikaku
        or | 蜂蜜 OR バイオリン | hachi baiorin | neko
        field | 水道 year:2021 | mizuumi | boira
        """,
    ),
    "thai": _language(
        """
        khanom 2019 นวดแป้งแล้วอบขนมปังในเตาร้อน
        sup 2020 ที่โรงสีมีเตาเก่าและซุปร้อน
        mo 2019 น้ำประปาไหลจากหม้อต้มไปยังห้องครัว
        bueng 2021 ริมบึงมีน้ำประปาใช้ในฤดูใบไม้ผลิ
        chiang 2020 รถไฟไปเชียงใหม่ออกตอนเช้า
        maeo 2021 แมวสองตัวนอนบนหลังคา
        kradat 2020 เครื่องพิมพ์ขึ้นรหัส E-4021 เพราะกระดาษติด
        muek 2020 เครื่องพิมพ์ขึ้นรหัส E-4027 เพราะหมึกหมด
        phaen 2022 แผนงานเป็นไฟล์ PDF อยู่ที่ห้องสุดท้าย
        nasa 2022 องค์การ NASA ส่งยานไปดาวดวงอื่น
        phueng 2021 ผึ้งเก็บเกสรดอกไม้และทำน้ำผึ้ง
        wai 2018 เธอเล่นไวโอลินในหอประชุมเก่า
        """,
        """
        phrase | "เตาร้อน" | khanom | sup
        minus | น้ำประปา -หม้อต้ม | bueng | mo
        misspelling | ไวโอลีน | wai | phueng
        unfinished | เกสร ไวโอ | wai phueng | chiang
        code | E-4021 | kradat | khanom
        marks | เชียงใหม่ ＰＤＦ | chiang phaen | maeo
        inflection | แมว | maeo | chiang
        case | nasa | nasa | phaen
        or | น้ำผึ้ง OR ไวโอลิน | phueng wai | maeo
        field | น้ำประปา year:2021 | bueng | mo
        """,
    ),
}
