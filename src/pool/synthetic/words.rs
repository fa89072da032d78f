//! The words that generated texts are made of.

/// Something two people talk about over months.
pub struct Topic {
    /// What a fact can be about.
    pub things: [&'static str; 10],
    /// What a speaker did about it, in the first person's past.
    pub deeds: [&'static str; 6],
    /// Where or with whom.
    pub settings: [&'static str; 5],
}

/// First names of speakers.
pub const NAMES: [&str; 24] = [
    "Alice", "Anna", "Clara", "Daniel", "David", "Elena", "Emma", "Eva", "Hugo", "Julia", "Laura", "Leon",
    "Lucia", "Maria", "Marta", "Martin", "Nina", "Oscar", "Paul", "Peter", "Robert", "Sara", "Simon",
    "Victor",
];

pub const TOPICS: [Topic; 12] = [
    Topic {
        things: [
            "the young tomato plants",
            "the white fence",
            "the old apple tree",
            "the garden wall",
            "the red roses",
            "the herb planter",
            "the flower corner",
            "the raised beds",
            "the little greenhouse",
            "the pumpkin patch",
        ],
        deeds: [
            "spent the whole weekend working on",
            "finally finished tidying up",
            "got my hands dirty with",
            "asked a friend for help with",
            "moved everything around",
            "asked my uncle to help me with",
        ],
        settings: [
            "behind the house",
            "at the community garden",
            "out on the balcony",
            "at the family farm",
            "together with the kids",
        ],
    },
    Topic {
        things: [
            "the half marathon",
            "the Tuesday climbing course",
            "the first triathlon",
            "the morning yoga class",
            "the local football league",
            "the charity bike ride",
            "the winter swimming group",
            "the swim across the lake",
            "the judo group for adults",
            "the mountain trail race",
        ],
        deeds: [
            "signed up for",
            "trained really hard for",
            "almost gave up on",
            "set a personal best in",
            "bought new shoes for",
            "asked a friend from work to join",
        ],
        settings: [
            "down by the river",
            "with the new trainer",
            "at the sports center in town",
            "together with two old teammates",
            "in very bad weather",
        ],
    },
    Topic {
        things: [
            "the old sheep dog",
            "the black cat",
            "the two white mice",
            "the parrot of my sister",
            "the new fish",
            "the old turtle",
            "the young dog",
            "the little cat",
            "the rabbits next door",
            "the big brown dog",
        ],
        deeds: [
            "had a long day looking after",
            "took hundreds of pictures of",
            "went to the vet because of",
            "built a small house for",
            "fell completely in love with",
            "learned a lot more about",
        ],
        settings: [
            "at the animal hospital",
            "in our tiny living room",
            "with a lot of time",
            "over the long weekend",
            "while my parents were visiting",
        ],
    },
    Topic {
        things: [
            "the fresh bread",
            "the potato soup",
            "the vegetable soup",
            "the fish dinner",
            "the lemon pie",
            "the home made pasta",
            "the cinnamon cake",
            "the hot chili",
            "the apple cake",
            "the wedding cake order",
        ],
        deeds: [
            "worked all evening on",
            "shared the recipe for",
            "almost burned",
            "got a lot of thanks for",
            "invited everyone over to taste",
            "wrote down every step of",
        ],
        settings: [
            "in the shared kitchen",
            "for a party at the office",
            "with fresh food from the market",
            "from an old book",
            "on a rainy Sunday",
        ],
    },
    Topic {
        things: [
            "the night train to Berlin",
            "the boat trip",
            "the weekend in the mountains",
            "the road trip through Italy",
            "the boat to the island",
            "the weekend in Rome",
            "the long mountain path",
            "the holiday by the sea",
            "the long stop in Paris",
            "the camper van holiday",
        ],
        deeds: [
            "booked the tickets for",
            "packed far too much for",
            "came back very happy from",
            "made a photo album about",
            "had to postpone",
            "met some lovely people during",
        ],
        settings: [
            "with my friends from university",
            "all on my own",
            "for our anniversary",
            "with very little money",
            "just before the holidays",
        ],
    },
    Topic {
        things: [
            "the promotion interview",
            "the big presentation",
            "the contract with the other office",
            "the new assistant",
            "the customer workshop",
            "the night shifts",
            "the software migration",
            "the parental leave request",
            "the office party",
            "the trade fair",
        ],
        deeds: [
            "was quite nervous about",
            "stayed late again because of",
            "got very good feedback on",
            "handed over my notes for",
            "had a long talk with my boss about",
            "finally saw some progress with",
        ],
        settings: [
            "at the main office",
            "with the whole team",
            "after months of waiting",
            "over a very long lunch",
            "in the last week of the year",
        ],
    },
    Topic {
        things: [
            "the water color series",
            "the clay pots",
            "the black and white drawings",
            "the wall project",
            "the family portrait",
            "the old postcards",
            "the glass lamp",
            "the book of drawings",
            "the stone figure",
            "the gallery opening",
        ],
        deeds: [
            "lost track of time working on",
            "sold a small piece from",
            "was really unhappy with",
            "started all over again with",
            "showed my cousin",
            "found new inspiration for",
        ],
        settings: [
            "in the small studio",
            "during the evening course",
            "at the art school",
            "with very loud music",
            "for the spring exhibition",
        ],
    },
    Topic {
        things: [
            "the cello lessons",
            "the garage band",
            "the jazz festival",
            "the children's choir",
            "the electric piano",
            "the open mic night",
            "the record collection",
            "the summer concert",
            "the song workshop",
            "the piano lessons",
        ],
        deeds: [
            "worked every single day for",
            "had so much fun at",
            "was asked to help organise",
            "recorded a rough demo of",
            "spent too much money on",
            "almost missed",
        ],
        settings: [
            "at the old theatre",
            "with the band from upstairs",
            "in front of forty people",
            "for a birthday party",
            "until well past midnight",
        ],
    },
    Topic {
        things: [
            "the broken roof",
            "the new bathroom",
            "the long book shelf",
            "the new heating system",
            "the paint in the hall",
            "the bank papers",
            "the old stairs",
            "the kitchen extension",
            "the room under the roof",
            "the solar panels",
        ],
        deeds: [
            "got three different quotes for",
            "talked with the owner about",
            "did most of the work for",
            "celebrated the end of",
            "did not expect the cost of",
            "watched a lot of videos about",
        ],
        settings: [
            "in the new apartment",
            "with the tools from my uncle",
            "before the winter",
            "on the ground floor",
            "with help from the family",
        ],
    },
    Topic {
        things: [
            "the bad headaches",
            "the blood test",
            "the back operation",
            "the quiet week",
            "the new diet",
            "the therapy sessions",
            "the month without sugar",
            "the long walks",
            "the new glasses",
            "the dentist appointment",
        ],
        deeds: [
            "finally saw a doctor about",
            "feel so much better since",
            "was worried for weeks about",
            "wrote a little book about",
            "read a good article about",
            "joined a group because of",
        ],
        settings: [
            "at the university clinic",
            "after a call from my doctor",
            "without telling anybody",
            "for the third time this year",
            "with very good results",
        ],
    },
    Topic {
        things: [
            "the evening course in history",
            "the Spanish exam",
            "the master thesis",
            "the application for the school",
            "the city history project",
            "the book club novel",
            "the first aid course",
            "the chess club",
            "the computer course",
            "the museum guided tour",
        ],
        deeds: [
            "passed the hardest part of",
            "handed in the draft for",
            "lost a lot of sleep over",
            "loved every minute of",
            "read some books about",
            "volunteered to present",
        ],
        settings: [
            "at the public library",
            "with my study buddy",
            "between two shifts",
            "at the evening school",
            "after a long night",
        ],
    },
    Topic {
        things: [
            "the language program",
            "the beach project",
            "the local food bank",
            "the school election",
            "the letter to the mayor",
            "the repair cafe",
            "the school meeting",
            "the hospital visits",
            "the new bike path",
            "the summer party",
        ],
        deeds: [
            "volunteered last Saturday at",
            "collected money for",
            "gave a short speech about",
            "was very moved by",
            "asked my brother to support",
            "took over the schedule for",
        ],
        settings: [
            "at the town hall",
            "with people from all over the district",
            "after a long discussion",
            "near the old port",
            "for the second year running",
        ],
    },
];

/// How a turn can begin.
pub const OPENERS: [&str; 16] = [
    "Hey {name}!",
    "Wow, {name}!",
    "Thanks, {name}!",
    "I have some news!",
    "You know what?",
    "Good to hear from you!",
    "There is something I wanted to tell you.",
    "It's been a while!",
    "I have to say this.",
    "It's been a crazy week.",
    "So glad you asked!",
    "That's so cool!",
    "Yes, I think so too.",
    "One more thing.",
    "Long time no see!",
    "Sounds wonderful, {name}!",
];

/// When something happened.
pub const TIMES: [&str; 12] = [
    "yesterday",
    "last week",
    "two days ago",
    "this morning",
    "last Friday",
    "a month ago",
    "the other day",
    "over the weekend",
    "last month",
    "on Wednesday evening",
    "the week before last",
    "earlier today",
];

/// How a turn can go on about the thing it is about, `{thing}`.
pub const REMARKS: [&str; 14] = [
    "I can't stop thinking about {thing}.",
    "There's still so much to do about {thing}, but we'll get there.",
    "My family always makes jokes about {thing}, and they are right.",
    "I think {thing} changed how I spend my evenings, and that's great.",
    "I'd love to show you {thing} sometime.",
    "Nobody expected {thing} to take this long!",
    "It wasn't easy, but every minute with {thing} was worth it.",
    "Have you ever tried something like {thing} yourself?",
    "I wrote a few lines about {thing} in my journal last night.",
    "Next time I'll plan {thing} more carefully.",
    "In the end, {thing} turned out better than I'd imagined.",
    "The best part about {thing} was how good it felt.",
    "We had a small dinner with friends after {thing}.",
    "Honestly, all the talk about {thing} is a bit too much for me.",
];

/// Sentences that fit anywhere.
pub const FILLERS: [&str; 26] = [
    "It was so good, really.",
    "Let's hope it works!",
    "I'm loving it so far.",
    "I really needed that.",
    "That means a lot.",
    "Hope you're doing well, {name}!",
    "And you, {name}, what's new?",
    "How's everything on your side?",
    "It's made me very happy.",
    "Thanks so much for your support, {name}!",
    "We should catch up properly soon.",
    "Let me know what you think!",
    "It reminded me of our school days.",
    "Sometimes small things make the biggest difference.",
    "Life's been a bit crazy for me lately, you know.",
    "I couldn't have done it without some help.",
    "My partner wasn't so sure at first, but we've both enjoyed it.",
    "It's nice to have something to look forward to again.",
    "I'm trying to stay patient and take it one step at a time.",
    "Everyone says I look happier, and I guess they're right.",
    "It was hard at first, but then it all came together in the end.",
    "We laughed so hard that the people next to us started laughing as well.",
    "I've promised myself to make more room for things like this in the future.",
    "If you're free one of these weekends, come by and see it with your own eyes!",
    "It made me realize how important it is to slow down, breathe and enjoy what we've got.",
    "There were days when I wasn't so sure, but my friends didn't let me give up.",
];

/// Short reactions to a thing, `{Thing}` at the beginning of a sentence.
pub const REACTIONS: [&str; 6] = [
    "{Thing}? Really?",
    "{Thing} again? No way!",
    "Love {thing}!",
    "So happy about {thing}!",
    "Oh, {thing}! Tell me more!",
    "So, {thing} again? Sounds like fun!",
];

/// How a photo that a speaker shares is described.
pub const PHOTOS: [&str; 5] = [
    "and shared a photo of {thing}.",
    "and shared a photograph of two people next to {thing}.",
    "and shared a blurry picture of {thing} {setting}.",
    "and shared a screenshot of a message about {thing}.",
    "and shared a photo of a notebook with plans for {thing}.",
];

/// Questions on one thing, `{thing}`.
pub const QUESTIONS: [&str; 8] = [
    "What did {name} say about {thing}?",
    "How does {name} feel about {thing} these days?",
    "Who was with {name} when it came to {thing}?",
    "Why did {thing} matter so much to {name}?",
    "Where did {name} deal with {thing}?",
    "What has {name} learned from {thing}?",
    "What made {name} care about {thing} in the first place?",
    "What's the story behind {name} and {thing}?",
];

/// Questions on a time.
pub const TIME_QUESTIONS: [&str; 5] = [
    "When did {name} first mention {thing}?",
    "How long ago did {name} start with {thing}?",
    "In which month did {name} talk about {thing}?",
    "What happened first for {name}, {thing} or {other}?",
    "When was {name} busy with {thing}?",
];

/// Questions on several things.
pub const SET_QUESTIONS: [&str; 5] = [
    "What do {thing} and {other} have in common for {name}?",
    "Which plans did {name} make around {thing} and {other}?",
    "How did {name} balance {thing} with {other}?",
    "What activities has {name} taken up besides {thing} and {other}?",
    "Who helped {name} with both {thing} and {other}?",
];

/// Questions whose answer needs more than what was said.
pub const OPEN_QUESTIONS: [&str; 4] = [
    "Would {name} likely give up {thing} for {other}?",
    "What might {name} do next, considering {thing} and {other}?",
    "Does {name} seem to be the kind of person who enjoys {thing}?",
    "What kind of person is {name}, given {thing} and {other}?",
];
