import {
  type Answers,
  count,
  countText,
  flag,
  id,
  link,
  list,
  number,
  object,
  picture,
  type Shape,
  text,
  word,
} from './fields.ts'

const written = (what: string) =>
  word(`When ${what}`, 'Sat Jan 31 12:00:00 +0000 2026', 'date and time in words')
const restId = (thing: string) => id(thing)
const nodeId = (thing: string) => id(`${thing}, internal to the platform`, 'VXNlcjoxMDAwMDAx')
const name = text('Name that is shown', 'Example Person')
const screenName = text('Name of the account', 'example')
const isBlueVerified = flag('Whether the account pays for its badge', true)
const imageShape = word('Shape of the picture', 'Circle')

const accountFigures: Shape = {
  description: text('What the account writes about itself', 'News about proxies'),
  followers_count: count('followers', 377_608),
  friends_count: count('accounts that it follows', 1_051),
  statuses_count: count('posts', 46_114),
  media_count: count('posts with pictures or videos', 3_843),
  favourites_count: count('posts that it liked', 80_812),
  listed_count: count('lists with the account', 3_959),
}
const account: Shape = {
  ...accountFigures,
  name,
  screen_name: screenName,
  created_at: written('the account was created'),
  location: text('Where the person lives', 'Example City'),
  url: link('Short link to the website', 'short'),
  profile_image_url_https: picture('Picture of the account'),
  profile_banner_url: picture('Wide picture of the account'),
  verified: flag('Whether the account was verified by the platform', false),
}

const figures: Shape = {
  created_at: written('the post was published'),
  full_text: text('Text of the post', 'A post about proxies'),
  lang: word('Language, two letters', 'en'),
  favorite_count: count('likes', 80),
  retweet_count: count('reposts', 5),
  reply_count: count('answers', 6),
  quote_count: count('quotes', 3),
  bookmark_count: count('bookmarks', 95),
  is_quote_status: flag('Whether the post quotes another one', false),
  conversation_id_str: id('the first post of the conversation'),
  user_id_str: id('the author'),
  id_str: id('the post'),
}
const legacy = object('The post', {
  ...figures,
  entities: object('What the text includes', {
    hashtags: list('Hashtags', { text: text('The hashtag', 'proxies') }),
    urls: list('Links', {
      url: link('Short link', 'short'),
      expanded_url: link('Full link', 'article'),
      display_url: word('What is shown', 'example.com/article'),
    }),
    user_mentions: list('Accounts that are named', { screen_name: screenName, id_str: id('the account') }),
    media: list('Pictures and videos', {
      id_str: id('the file'),
      type: word('photo, video or animated_gif', 'photo'),
      media_url_https: picture('Picture, or preview picture of a video'),
      expanded_url: link('Link to the file', 'example/status/1/photo/1'),
    }),
  }),
})
const views = object('Views', {
  count: countText('views', '27539'),
  state: word('Whether views are counted', 'EnabledWithCount'),
})
const core = object('Author of the post', {
  user_results: object('The author', {
    result: object('The account', {
      rest_id: restId('the account'),
      is_blue_verified: isBlueVerified,
      legacy: object('Details of the account', account),
    }),
  }),
})
const source = word('Program that wrote it, as HTML', '<a href="https://example.com/">Example App</a>')

const post: Shape = {
  rest_id: restId('the post'),
  core,
  legacy,
  views,
  source,
  edit_control: object('Whether the post can be changed', {
    editable_until_msecs: word('Until when', '1769864400000', 'milliseconds since 1970'),
    is_edit_eligible: flag('Whether it can be changed at all', false),
    edits_remaining: countText('changes that are left', '5'),
  }),
  is_translatable: flag('Whether the platform translates it', false),
}

export const twitter: Answers = {
  community: {
    rest_id: restId('the community'),
    id: nodeId('the community'),
    name: text('Name of the community', 'People and Proxies'),
    description: text('What the community is about', 'Questions about proxies'),
    created_at: number('When the community was created', 1_769_860_800_000, 'milliseconds since 1970'),
    join_policy: word('Who may join', 'Open'),
    member_count: count('members', 1_896),
    rules: list('Rules', {
      rest_id: restId('the rule'),
      id: nodeId('the rule'),
      name: text('The rule', 'Be polite'),
      description: text('What it means', 'Write as you would speak'),
    }),
    creator_results: object('Who created the community', {
      id: nodeId('the entry'),
      result: object('The account', {
        id: nodeId('the account'),
        is_blue_verified: isBlueVerified,
        core: object('Names', { screen_name: screenName }),
      }),
    }),
    members_facepile_results: list('Some members', {
      id: nodeId('the entry'),
      result: object('The account', {
        id: nodeId('the account'),
        avatar: object('Picture', { image_url: picture('Link to the picture') }),
      }),
    }),
    is_member: flag('Whether the viewer is a member', false),
    role: word('What the viewer is in the community', 'NonMember'),
  },
  'community-tweets': {
    tweets: list('Posts', {
      id: id('the post'),
      ...figures,
      view_count: countText('views', '8660'),
      source,
      user: object('Who wrote the post', {
        id: nodeId('the account'),
        rest_id: restId('the account'),
        is_blue_verified: isBlueVerified,
        profile_image_shape: imageShape,
        avatar: object('Picture', { image_url: picture('Link to the picture') }),
        core: object('Names', {
          name,
          screen_name: screenName,
          created_at: written('the account was created'),
        }),
        legacy: object('Figures of the account', accountFigures),
        location: object('Where the person lives', { location: text('The place', 'Example City') }),
      }),
    }),
  },
  profile: {
    rest_id: restId('the account'),
    id: nodeId('the account'),
    is_blue_verified: isBlueVerified,
    legacy: object('Details of the account', {
      ...account,
      entities: object('Links of the account', {
        url: object('Website', {
          urls: list('The link', {
            expanded_url: link('Full link', ''),
            display_url: word('What is shown', 'example.com'),
          }),
        }),
      }),
    }),
    verification_info: object('How the account was verified', {
      is_identity_verified: flag('Whether the identity was checked', false),
      reason: object('Why it has its badge', {
        description: object('In words', { text: text('The text', 'This account is verified.') }),
        verified_since_msec: word('Since when', '1769860800000', 'milliseconds since 1970'),
      }),
    }),
    highlights_info: object('Posts that the account shows first', {
      can_highlight_tweets: flag('Whether it can choose such posts', true),
      highlighted_tweets: countText('such posts', '482'),
    }),
    business_account: object('Company to which the account belongs', {
      affiliates_count: count('accounts of the company', 0),
    }),
    creator_subscriptions_count: count('accounts that it pays for', 3),
    affiliates_highlighted_label: object('Badge of a company', {
      label: object('The badge', {
        description: text('Name of the company', 'Example Software'),
        userLabelType: word('Kind of badge', 'BusinessLabel'),
        badge: object('Picture', { url: picture('Link to the picture') }),
      }),
    }),
    profile_image_shape: imageShape,
    tipjar_settings: object('Ways to send money', { is_enabled: flag('Whether there are any', false) }),
    legacy_extended_profile: object('Birthday, if it is public', {
      birthdate: object('The day', {
        day: number('Day, from 1', 31),
        month: number('Month, from 1', 1),
        year: number('Year', 2000, 'year'),
      }),
    }),
  },
  tweet: {
    ...post,
    unmention_data: object('Accounts that left the conversation; empty', {}),
  },
  'tweet-transcript': { transcript: text('What is said', 'Today we talk about proxies') },
  tweets: {
    tweets: list('Posts', { ...post, url: link('Link to the post', 'example/status/1') }),
  },
}
