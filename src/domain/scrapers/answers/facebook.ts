import {
  type Answers,
  count,
  flag,
  id,
  idNumber,
  isoTime,
  link,
  list,
  media,
  milliseconds,
  mixed,
  number,
  numbers,
  object,
  picture,
  position,
  type Shape,
  seconds,
  size,
  text,
  texts,
  unixTime,
  word,
  words,
} from './fields.ts'

const name = text('Name', 'Example Page')
const url = (thing: string) => link(`Link to ${thing}`, `${thing.replaceAll(' ', '-')}/1`)
const moreFollow = flag('Whether there is another page', true)
/** base64 of `feedback:1000000001` */
const feedbackId = id('its comments, for post-comments and comment-replies', 'ZmVlZGJhY2s6MTAwMDAwMDAwMQ==')
const clock = '2026-01-31T12:00:00.000Z'

const person: Shape = {
  id: id('the author'),
  name,
  url: url('the author'),
  is_verified: flag('Whether the author is verified', false),
  image: picture('Picture of the author'),
}

const music = object('Sound of the video', {
  id: id('the sound'),
  type: word('Kind of sound', 'CUSTOM_AUDIO'),
  track_title: text('Title of the sound', 'Example Page · Original audio'),
  music_album_art: picture('Picture of the sound'),
})

const comment: Shape = {
  id: id('the comment', 'Y29tbWVudDoxMDAwMDAwMDAx'),
  text: text('Text of the comment', 'What a good idea'),
  created_at: isoTime('When the comment was written'),
  reply_count: count('answers', 16),
  reaction_count: count('reactions', 76),
  reactions: object('Reactions by kind', {
    like: count('likes', 55),
    love: count('hearts', 3),
    care: count('hugs', 0),
    haha: count('laughs', 17),
    wow: count('wows', 0),
    sad: count('tears', 1),
    anger: count('angry faces', 0),
  }),
  author: object('Who wrote the comment', {
    id: id('the author'),
    name,
    short_name: text('Short name', 'Example'),
    gender: word('Gender that the account states', 'NEUTER'),
    profile_picture: picture('Picture of the author'),
  }),
  feedback_id: id('its answers, for comment-replies', 'ZmVlZGJhY2s6MTAwMDAwMDAwMQ=='),
  expansion_token: word('What comment-replies needs besides `feedback_id`', 'MjoxNzY5ODYwODAwOmV4YW1wbGU='),
}

const feedPost: Shape = {
  id: id('the post'),
  url: url('the post'),
  permalink: url('the post'),
  text: text('Text of the post', 'We open at nine today'),
  author: object('Who wrote the post', {
    __typename: word('Kind of the author', 'User'),
    id: id('the author'),
    name,
    short_name: text('Short name', 'Example'),
  }),
  publishTime: unixTime('When the post was published'),
  reactionCount: count('reactions', 133),
  commentCount: count('comments', 12),
  videoViewCount: count('views of the video', 900),
  videoDetails: object('Video of the post', {
    sdUrl: media('Link to the small video'),
    hdUrl: media('Link to the large video'),
    thumbnailUrl: picture('Preview picture'),
  }),
  topComments: list('Comments that are shown first', {
    id: id('the comment'),
    text: text('Text of the comment', 'How can I sign up?'),
    publishTime: unixTime('When the comment was written'),
    author: object('Who wrote the comment', { id: id('the author'), name }),
  }),
}

const isOnline = flag('Whether it takes place online', false)
const eventName = text('Name of the event', 'Jazz in the park')
const dayTime = word('Day and time in words', 'Sun, May 3 at 12 PM')
const eventKind = word('Kind of event', 'PUBLIC_TYPE')
const isPast = flag('Whether the event is over', false)
const isOnNow = flag('Whether it takes place now', false)
const begins = unixTime('When the event begins')
const place = (more: Shape = {}) =>
  object('Where it takes place', {
    __typename: word('Kind of place', 'Page'),
    id: id('the place'),
    contextual_name: text('Name of the place', 'Example Park'),
    ...more,
  })
const interest = object('How many people are interested', {
  text: word('The figures in words', '21 interested · 10 going'),
  interested_count: count('interested people', 21),
  going_count: count('people who will come', 10),
})
const coverPhoto: Shape = {
  id: id('the picture'),
  accessibility_caption: text('Description of the picture', 'A stage in a park'),
}
const price = object('Tickets', { price_range_text: word('Prices in words', '$10 - $20') })

const advertised: Shape = {
  page_id: id('the page'),
  page_name: text('Name of the page', 'Example Shoes'),
  page_profile_uri: url('the page'),
  page_profile_picture_url: picture('Picture of the page'),
  page_like_count: count('likes of the page', 3_823),
  title: text('Headline', 'Running shoes'),
  caption: word('Domain that is shown', 'example.com'),
  cta_text: text('Text of the button', 'Shop now'),
  cta_type: word('Kind of the button', 'SHOP_NOW'),
  display_format: word('Kind of content: IMAGE, VIDEO, CAROUSEL and others', 'IMAGE'),
  link_url: link('Where it leads', 'shoes'),
  link_description: text('Text below the headline', 'Light shoes for long runs'),
  images: list('Pictures', {
    original_image_url: picture('Link to the picture'),
    resized_image_url: picture('Link to the small picture'),
  }),
  videos: list('Videos', {
    video_hd_url: media('Link to the large video'),
    video_sd_url: media('Link to the small video'),
    video_preview_image_url: picture('Preview picture'),
  }),
}

const adInList: Shape = {
  ad_archive_id: id('the advertisement: `id` of ad'),
  page_id: id('the page'),
  page_name: text('Name of the page', 'Example Shoes'),
  is_active: flag('Whether it still runs', true),
  start_date: unixTime('First day'),
  end_date: unixTime('Last day'),
  total_active_time: seconds('How long it ran', 5_519),
  publisher_platform: words('Where it ran', ['FACEBOOK', 'INSTAGRAM']),
  collation_count: count('variants', 3),
  snapshot: object('What it shows', {
    ...advertised,
    body: object('Text', { text: text('The text', 'Shoes for long runs') }),
    page_categories: texts('What the page is about', ['Sportswear']),
  }),
}

export const facebook: Answers = {
  ad: {
    adArchiveID: idNumber('the advertisement', 702_000_000_000_001),
    pageID: idNumber('the page', 166_000_000_000_001),
    pageName: text('Name of the page', 'Example Shoes'),
    isActive: flag('Whether it still runs', true),
    startDate: unixTime('First day'),
    endDate: unixTime('Last day'),
    totalActiveTime: seconds('How long it ran', 41_782),
    url: url('the advertisement'),
    publisherPlatform: words('Where it ran', ['facebook', 'instagram']),
    currency: word('Currency of `spend`', 'USD'),
    spend: mixed('What it cost, for political advertisements; else null', '100-199', 'units of `currency`'),
    impressionsWithIndex: object('How often it was seen', {
      impressionsText: word('The figure in words', '1K-5K'),
      impressionsIndex: number('Place among the advertisements of the page; -1 if unknown', -1),
    }),
    categories: numbers('Numbers of the categories', [0]),
    snapshot: object('What it shows', {
      ...advertised,
      body: text('Text', 'Shoes for long runs'),
      creation_time: unixTime('When it was created'),
    }),
    aaa_info: object('What European rules make public', {
      targets_eu: flag('Whether it is shown in the European Union', true),
      gender_audience: word('Gender that it aims at', 'All'),
      age_audience: object('Age that it aims at', {
        min: number('From', 18, 'years'),
        max: number('To', 65, 'years'),
      }),
      eu_total_reach: count('accounts in the European Union that saw it', 1_657),
      location_audience: list('Places that it aims at', {
        name: text('Name of the place', 'Example City'),
        type: word('Kind of place', 'CITY'),
        excluded: flag('Whether the place is left out', false),
      }),
      age_country_gender_reach_breakdown: list('Accounts by country', {
        country: word('Country, two letters', 'HR'),
        age_gender_breakdowns: list('Accounts by age', {
          age_range: word('Age', '45-54', 'years'),
          male: count('men', 101),
          female: count('women', 77),
          unknown: count('others', 4),
        }),
      }),
      payer_beneficiary_data: list('Who pays for it', {
        payer: text('Who pays', 'Example Shoes Ltd'),
        beneficiary: text('For whom', 'Example Shoes Ltd'),
      }),
    }),
  },
  'ad-companies-search': {
    searchResults: list('Pages of companies', {
      page_id: id('the page, for ad-company'),
      name: text('Name of the page', 'Example Shoes'),
      page_alias: word('Name in links', 'exampleshoes'),
      category: word('Kind of company', 'Product/service'),
      likes: count('likes', 41_136),
      verification: word('Whether the page is verified', 'BLUE_VERIFIED'),
      image_uri: picture('Picture of the page'),
      entity_type: word('Kind of the page', 'PERSON_PROFILE'),
      ig_username: text('Account on Instagram', 'exampleshoes'),
      ig_followers: count('followers on Instagram', 46_451),
      ig_verification: flag('Whether the account on Instagram is verified', true),
    }),
  },
  'ad-company': { results: list('Advertisements', adInList), cursor: position('AQHRYLVDZXhhbXBsZVBhZ2Uy') },
  'ad-search': {
    searchResults: list('Advertisements', adInList),
    searchResultsCount: count('matches; 50001 means more than 50,000', 50_001),
    cursor: position('AQHRYLVDZXhhbXBsZVBhZ2Uy'),
  },
  'comment-replies': {
    replies: list('Answers', comment),
    cursor: position('MToxNzY5ODYwODAwOmV4YW1wbGU='),
    has_next_page: moreFollow,
  },
  event: {
    id: id('the event'),
    url: url('the event'),
    name: eventName,
    description: text('What the event is', 'Three bands play in the park'),
    start_time: mixed('When it begins, or null', clock),
    end_time: mixed('When it ends, or null', clock),
    start_timestamp: begins,
    day_time_sentence: dayTime,
    duration: word('Length in words', '4 hr'),
    is_online: isOnline,
    is_past: isPast,
    is_canceled: flag('Whether it is canceled', false),
    event_kind: eventKind,
    location_name: text('Name of the place', 'Example Park'),
    address: text('Address', '1 Example Street'),
    city: text('City', 'Example City'),
    latitude: number('Latitude', 27.776, 'degrees'),
    longitude: number('Longitude', -82.64, 'degrees'),
    ticket_url: mixed('Where tickets are sold, or null', 'https://example.com/tickets'),
    attendance_count: count('people who come or are interested', 7_654),
    interested_count: count('interested people', 7_448),
    going_count: count('people who will come', 206),
    hosts: list('Who holds the event', {
      id: id('the host'),
      name,
      type: word('Kind of host', 'User'),
      url: url('the host'),
      is_verified: flag('Whether the host is verified', false),
      profile_picture_url: picture('Picture of the host'),
    }),
    cover_photo_url: picture('Picture of the event'),
    event_place: place({ name: text('Full name of the place', 'Example Park') }),
  },
  events: {
    events: list('Events', {
      id: id('the event'),
      eventUrl: url('the event'),
      name: eventName,
      day_time_sentence: dayTime,
      start_timestamp: begins,
      is_online: isOnline,
      is_past: isPast,
      is_happening_now: isOnNow,
      event_kind: eventKind,
      event_place: place(),
      ticketing_context_row: price,
      social_context: interest,
      cover_photo: object('Picture of the event', {
        photo: object('The picture', {
          ...coverPhoto,
          image: object('The file', { uri: picture('Link to the picture') }),
        }),
      }),
    }),
    cursor: position('eyJzdGFydCI6ImV4YW1wbGUyIn0='),
  },
  'events-search': {
    events: list('Events', {
      id: id('the event'),
      url: url('the event'),
      event_url: url('the event'),
      name: eventName,
      type: word('Kind of the result', 'Event'),
      day_time_sentence: dayTime,
      start_timestamp: begins,
      is_online: isOnline,
      is_past: isPast,
      event_kind: eventKind,
      event_place: place(),
      ticketing_context_row: price,
      social_context: interest,
      cover_photo: object('Picture of the event', {
        ...coverPhoto,
        eventImage: object('The file', { uri: picture('Link to the picture') }),
      }),
    }),
    cursor: position('Abr1gHMUZXhhbXBsZVBhZ2Uy'),
  },
  'group-posts': { posts: list('Posts', feedPost), cursor: position('AQHRBjJCZXhhbXBsZVBhZ2Uy') },
  post: {
    post_id: id('the post'),
    url: url('the post'),
    description: text('Text of the post', 'A cake without an oven'),
    creation_time: isoTime('When the post was published'),
    like_count: count('likes', 2_095),
    comment_count: count('comments', 48),
    share_count: count('shares', 133),
    view_count: count('views', 133_000),
    author: object('Who wrote the post', person),
    video: object('Video of the post', {
      id: id('the video'),
      sd_url: media('Link to the small video'),
      hd_url: media('Link to the large video'),
      ...size,
      length_in_second: seconds('Length', 23.36),
      thumbnail: picture('Preview picture'),
      captions_url: link('Link to the captions', 'captions.srt'),
    }),
    image_url: mixed('Picture of the post, or null', 'https://example.com/picture.jpg'),
    music,
    feedback_id: feedbackId,
  },
  'post-comments': {
    comments: list('Comments', comment),
    cursor: position('MToxNzY5ODYwODAwOmV4YW1wbGU='),
    has_next_page: moreFollow,
  },
  'post-transcript': { transcript: text('What is said', 'Today we bake a cake without an oven') },
  profile: {
    id: id('the page'),
    name,
    url: url('the page'),
    category: word('Kind of page', 'Restaurant'),
    followerCount: count('followers', 3_200),
    likeCount: count('likes', 3_224),
    pageIntro: text('What the page writes about itself', 'A small restaurant'),
    website: link('Link to the website', ''),
    email: word('Mail address', 'contact@example.com'),
    phone: word('Telephone number', '+1 202-555-0100'),
    address: text('Address', '1 Example Street'),
    links: list('More links', { url: link('Where the link leads', 'menu') }),
    services: text('What the page offers', 'Delivery · Takeaway'),
    priceRange: word('How expensive it is', '$$'),
    rating: word('Rating in words', '92% recommend (12 reviews)'),
    businessHours: list('Opening hours, with `get_business_hours`', {
      monday: object('Hours of a day; the other days have the same form', {
        open: word('When it opens', '09:00'),
        close: word('When it closes', '18:00'),
        fullText: word('Hours in words', '9 AM to 6 PM'),
      }),
    }),
    profilePicLarge: picture('Picture of the page'),
    adLibrary: object('Whether the page advertises', {
      adStatus: word('State in words', 'This Page is currently running ads.'),
      pageId: id('the page, for ad-company'),
    }),
    isBusinessPageActive: flag('Whether it is a page of a business', true),
    isPrivate: flag('Whether the page is private', false),
    creationDate: word('When the page was created', 'January 31, 2026', 'date in words'),
  },
  'profile-events': {
    events: list('Events', {
      id: id('the event'),
      url: url('the event'),
      name: eventName,
      day_time_sentence: dayTime,
      start_timestamp: begins,
      is_canceled: flag('Whether it is canceled', false),
      is_past: isPast,
      is_happening_now: isOnNow,
      event_kind: eventKind,
      __isEntity: word('Kind of the entry', 'Event'),
      event_creator: object('Who created the event', {
        id: id('the creator'),
        name,
        url: url('the creator'),
        __typename: word('Kind of the creator', 'User'),
      }),
      event_place: place({
        location: object('Where the place is', {
          reverse_geocode: object('Address', { city: text('City', 'Example City') }),
        }),
      }),
    }),
    cursor: position('eyJpZCI6ImV4YW1wbGUyIn0='),
    has_next_page: moreFollow,
    total_count: count('events', 22),
  },
  'profile-photos': {
    photos: list('Photos', {
      id: id('the entry', 'YXBwX2l0ZW06MTAwMDAwMDAwMQ=='),
      photo_id: id('the photo'),
      url: url('the photo'),
      thumbnail: picture('Small picture'),
      accessibility_caption: text('Description of the photo', 'A table with plates'),
      viewer_image: object('Large picture', { uri: picture('Link to the picture'), ...size }),
    }),
    cursor: position('AQHSRM68ZXhhbXBsZVBhZ2Uy'),
    next_page_id: word('Second half of the position: `nextCursor` has it', 'YXBwX2NvbGxlY3Rpb246MQ=='),
  },
  'profile-posts': { posts: list('Posts', feedPost), cursor: position('Cg8Ob3JnZXhhbXBsZVBhZ2Uy') },
  'profile-reels': {
    reels: list('Reels', {
      id: id('the entry', 'UzpfSTEwMDAwMDAwMDE='),
      post_id: id('the post'),
      video_id: id('the video'),
      url: url('the reel'),
      description: text('Text of the reel', 'A walk through the kitchen'),
      creation_time: isoTime('When the reel was published'),
      view_count: count('views', 900),
      play_time_in_ms: milliseconds('Length', 22_035),
      thumbnail: picture('Preview picture'),
      video_url: media('Link to the video'),
      author: object('Who made the reel', person),
      music,
      feedback_id: feedbackId,
    }),
    cursor: position('AQHSFZtzZXhhbXBsZVBhZ2Uy'),
    next_page_id: word('Second half of the position: `nextCursor` has it', 'YXBwX2NvbGxlY3Rpb246MQ=='),
  },
}
