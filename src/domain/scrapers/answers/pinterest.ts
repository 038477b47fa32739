import {
  type Answers,
  count,
  flag,
  id,
  link,
  list,
  mixed,
  number,
  object,
  picture,
  pictures,
  position,
  type Shape,
  size,
  text,
  texts,
  word,
} from './fields.ts'

const created = (what: string) =>
  word(`When ${what} was created`, 'Sat, 31 Jan 2026 12:00:00 +0000', 'RFC 2822 date')
const domain = word('Domain of the page that it leads to', 'example.com')

const account: Shape = {
  id: id('the account'),
  username: text('Name of the account', 'example'),
  full_name: text('Name that is shown', 'Example Person'),
  follower_count: count('followers', 85),
  image_small_url: picture('Small picture of the account'),
  image_medium_url: picture('Picture of the account'),
  is_verified_merchant: flag('Whether it is a verified merchant', false),
}
const accountOfPin: Shape = {
  entityId: id('the account'),
  username: text('Name of the account', 'example'),
  fullName: text('Name that is shown', 'Example Person'),
  followerCount: count('followers', 85),
  imageMediumUrl: picture('Picture of the account'),
  isVerifiedMerchant: flag('Whether it is a verified merchant', false),
}

const board: Shape = {
  id: id('the board'),
  name: text('Name of the board', 'Kitchen'),
  url: word('Path of the board', '/example/kitchen/'),
  type: word('Kind of the entry', 'board'),
  privacy: word('Who may see it', 'public'),
  is_collaborative: flag('Whether several accounts fill it', false),
  owner: object('Whose board it is', account),
}

const pin: Shape = {
  id: id('the pin'),
  title: text('Title of the pin', 'Pot roast'),
  description: text('Text of the pin', 'A pot roast for Sundays'),
  link: link('Page that it leads to', 'pot-roast'),
  domain,
  images: object('Pictures by size', {
    orig: object('The picture as it was sent', { url: picture('Link to the picture'), ...size }),
  }),
  seo_alt_text: text('Description of the picture', 'A pot on a table'),
  dominant_color: word('Main colour', '#714426'),
  repin_count: count('boards that it was added to', 3),
  board: object('Board of the pin', board),
  pinner: object('Who added the pin', account),
  category: word('What it is about', 'food_drinks'),
  type: word('Kind of the entry', 'pin'),
}

export const pinterest: Answers = {
  board: { pins: list('Pins of the board', pin), cursor: position('Y2JURlEwZXhhbXBsZVBhZ2Uy') },
  pin: {
    entityId: id('the pin'),
    title: text('Title of the pin', 'Pot roast'),
    description: text('Text of the pin', 'A pot roast for Sundays'),
    link: link('Page that it leads to', 'pot-roast'),
    domain,
    createdAt: created('the pin'),
    autoAltText: text('Description of the picture, by a machine', 'A pot on a table'),
    dominantColor: word('Main colour', '#714426'),
    imageSpec_736x: object('The picture, 736 pixels wide', { url: picture('Link to the picture'), ...size }),
    imageSpec_orig: object('The picture as it was sent', { url: picture('Link to the picture'), ...size }),
    originPinner: object('Who added the pin first', accountOfPin),
    pinner: object('Who added the pin', accountOfPin),
    pinJoin: object('What the picture shows', {
      visualAnnotation: texts('Words for the picture', ['Pot roast']),
      annotationsWithLinksArray: list('Words with links', {
        name: text('The word', 'Pot roast'),
        url: word('Path of the page of the word', '/ideas/pot-roast/1/'),
      }),
      seoCanonicalUrl: word('Path of the pin', '/pin/7000000000000000001/'),
    }),
    videos: mixed('Videos of the pin, or null', null),
    repinCount: count('boards that it was added to', 88),
    shareCount: count('shares', 4),
    totalReactionCount: count('reactions', 88),
    reactionCountsData: list('Reactions by kind', {
      reactionType: number('Number of the kind', 1),
      reactionCount: count('reactions', 88),
    }),
    aggregatedPinData: object('Figures of all copies of the pin', {
      aggregatedStats: object('Totals', { saves: count('boards', 49_054) }),
      commentCount: count('comments', 55),
    }),
    visualObjects: list('Things in the picture', {
      label: text('What it is', 'Pot'),
      x: number('Left edge', 0.1, 'share of the width'),
      y: number('Upper edge', 0.2, 'share of the height'),
      w: number('Width', 0.5, 'share of the width'),
      h: number('Height', 0.4, 'share of the height'),
    }),
    embed: mixed('Embedded player, or null', null),
    category: word('What it is about', 'food_drinks'),
  },
  search: {
    pins: list('Pins', {
      ...pin,
      url: link('Link to the pin', 'pin/1'),
      created_at: created('the pin'),
      grid_title: text('Title in lists', 'Pot roast'),
      is_promoted: flag('Whether it is an advertisement', false),
    }),
    cursor: position('Y2JVSG81ZXhhbXBsZVBhZ2Uy'),
  },
  'user-boards': {
    boards: list('Boards', {
      ...board,
      url: link('Link to the board', 'example/kitchen'),
      description: text('Text of the board', 'What I want to cook'),
      created_at: created('the board'),
      pin_count: count('pins', 545),
      follower_count: count('followers', 292),
      section_count: count('sections', 0),
      images: object('Pictures by size', { '170x': pictures('Pictures of pins, 170 pixels wide') }),
      image_cover_hd_url: picture('Large picture of the board'),
    }),
    cursor: word('Position of the next boards; no input accepts it', 'LT41ZXhhbXBsZVBhZ2Uy'),
  },
}
