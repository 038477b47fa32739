import {
  type Answers,
  count,
  flag,
  id,
  idNumber,
  link,
  list,
  mixed,
  number,
  object,
  picture,
  text,
  word,
  words,
} from './fields.ts'

const accountOn = (platform: string) =>
  link(`Link to the account on ${platform}`, `${platform.toLowerCase()}/example`)
const target = link('Where the link leads', 'shop')
const title = text('Text of the link', 'My shop')
const uuid = (thing: string) => id(thing, '00000000-0000-4000-8000-000000000001')
/** Many pages lack it, and its type is not known then. */
const maybe = (platform: string) =>
  mixed(`Account on ${platform}, or null`, `https://example.com/${platform.toLowerCase()}/example`)

export const komi: Answers = {
  page: {
    id: uuid('the page'),
    username: text('Name of the page', 'example'),
    displayName: text('Name that is shown', 'Example Person'),
    firstName: text('First name', 'Example'),
    lastName: text('Last name', 'Person'),
    bio: text('What the person writes about themselves', 'I write about proxies'),
    avatar: picture('Picture of the person'),
    instagram: accountOn('Instagram'),
    tiktok: accountOn('TikTok'),
    youtube: accountOn('YouTube'),
    twitter: accountOn('Twitter'),
    facebook: accountOn('Facebook'),
    snapchat: accountOn('Snapchat'),
    website: mixed('Link to the website, or null', 'https://example.com/'),
    links: list('Links of the page', {
      id: uuid('the link'),
      url: target,
      title,
      thumbnail: picture('Picture of the link'),
      type: word('Kind of the link', 'LINK'),
      order: number('Place in the page, from 0', 0),
      visible: flag('Whether the link is shown', true),
      price: number('Price, if the link sells something', 44, 'units of `currency`'),
      currency: word('Currency of the price', 'USD'),
    }),
  },
}

export const linkbio: Answers = {
  page: {
    handle: text('Name of the page', 'example'),
    id: id('the page', '-1000001'),
    links: list('Links of the page', { url: target, text: title }),
    instagram: maybe('Instagram'),
    tiktok: maybe('TikTok'),
    youtube: maybe('YouTube'),
    twitter: maybe('Twitter'),
    website: mixed('Link to the website, or null', 'https://example.com/'),
    email: mixed('Mail address, or null', 'person@example.com'),
    whatsapp: maybe('WhatsApp'),
  },
}

const groupOfLinks = {
  title: text('Name of the group', 'Website'),
  linkId: idNumber('the kind of links', 9),
  isCustom: flag('Whether the person named the group', false),
  links: list('Links of the group', {
    webLinkId: idNumber('the link'),
    linkImage: word('Path of the picture', 'style/icons/example.png'),
    linkValue: link('Where the link leads, or a mail address', 'shop'),
    faceValue: text('What is shown of the link', 'example'),
    isCustom: flag('Whether the person named the link', false),
    isAdult: flag('Whether it leads to content for adults', false),
  }),
}

export const linkme: Answers = {
  profile: {
    profile: object('The profile', {
      id: id('the profile', '00000000000000000000000000000001'),
      username: text('Name of the profile', 'example'),
      firstName: text('First name', 'Example'),
      lastName: text('Last name', 'Person'),
      bio: text('What the person writes about themselves', 'All my links'),
      verifiedAccount: number('1 if the account is verified, else 0', 0),
      isAmbassador: number('1 if the person advertises the platform, else 0', 0),
      isPrivate: number('1 if the profile is private, else 0', 0),
      profileVisitCount: word('Number of visits, rounded', '15.9k'),
      profileImage: word('Path of the picture', 'user-profile/1/picture.jpg'),
      createdAt: word('When the profile was created', '2026-01-31 12:00:00', 'date and time'),
      updatedAt: word('When the profile was changed', '2026-01-31 12:00:00', 'date and time'),
      totalLinks: count('links', 7),
      infoLinks: list('Ways to reach the person', groupOfLinks),
      webLinks: list('Links', groupOfLinks),
    }),
  },
}

export const linktree: Answers = {
  page: {
    id: idNumber('the page', 15_000_001),
    username: text('Name of the page', 'example'),
    description: text('What the person writes about themselves', 'I write about proxies'),
    profilePictureUrl: picture('Picture of the person'),
    links: list('Links of the page', {
      id: idNumber('the link', 463_000_001),
      url: target,
      title,
      type: word('Kind of the link', 'CLASSIC'),
    }),
    linkPlatforms: words('Platforms that the links lead to', ['Instagram', 'Spotify']),
    verticals: words('What the page is about', ['music']),
    timezone: word('Time zone of the person', 'America/New_York'),
    email_address: word('Mail address', 'person@example.com'),
    instagram: accountOn('Instagram'),
    tiktok: accountOn('TikTok'),
    spotify: accountOn('Spotify'),
    youtube: accountOn('YouTube'),
    soundcloud: accountOn('SoundCloud'),
    apple_music: accountOn('Apple'),
  },
}

export const pillar: Answers = {
  page: {
    id: uuid('the page'),
    first_name: text('First name', 'Example'),
    last_name: text('Last name', 'Person'),
    email: word('Mail address', 'person@example.com'),
    email_primary: word('First mail address', 'person@example.com'),
    location: text('Where the person lives', 'Example City'),
    links: list('Links of the page', {
      id: uuid('the link'),
      url: target,
      title,
      type: word('Kind of the link', 'twitter'),
      clicks: count('clicks', 2),
      order: number('Place in the page', 1),
    }),
    products: list('Products that the person sells', {
      id: uuid('the product'),
      title: text('Title of the product', 'A poster'),
      name: text('Name of the product', 'A poster'),
      description: text('What the product is', 'A printed poster'),
      url: link('Link to the product', 'shop/1'),
      image: picture('Picture of the product'),
      price: number('Price', 20, 'currency of the page'),
    }),
    instagram: accountOn('Instagram'),
    tiktok: accountOn('TikTok'),
    youtube: accountOn('YouTube'),
    twitter: accountOn('Twitter'),
    facebook: accountOn('Facebook'),
    linkedin: accountOn('LinkedIn'),
    spotify: accountOn('Spotify'),
    soundcloud: accountOn('SoundCloud'),
    amazon: accountOn('Amazon'),
  },
}
