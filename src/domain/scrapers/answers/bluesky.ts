import {
  type Answers,
  count,
  flag,
  id,
  isoTime,
  link,
  list,
  object,
  picture,
  type Shape,
  text,
  word,
  words,
} from './fields.ts'

const did = (thing: string) => id(thing, 'did:plc:exampleexampleexample1')
const uri = (thing: string) =>
  id(thing, 'at://did:plc:exampleexampleexample1/app.bsky.feed.post/3examplepost1')
const cid = id('this version of the post', 'bafyreiexampleexampleexample1')

const labels = list('Labels of moderators', {
  src: did('the moderator'),
  uri: uri('what is labelled'),
  val: word('The label', '!no-unauthenticated'),
  cts: isoTime('When it was labelled'),
})

const account: Shape = {
  did: did('the account'),
  handle: text('Name of the account', 'example.bsky.social'),
  displayName: text('Name that is shown', 'Example Person'),
  avatar: picture('Picture of the account'),
  labels,
  createdAt: isoTime('When the account was created'),
  verification: object('How the account was verified', {
    verifications: list('Verifications by others', {
      issuer: did('the account that verified it'),
      uri: uri('the verification'),
      isValid: flag('Whether the verification is valid', true),
      createdAt: isoTime('When the account was verified'),
    }),
    verifiedStatus: word('Whether the account is verified', 'valid'),
    trustedVerifierStatus: word('Whether the account may verify others', 'none'),
  }),
}

const preview: Shape = {
  uri: link('Link', 'article'),
  title: text('Title of the linked page', 'An article'),
  description: text('Summary of the linked page', 'What the article says'),
}

const post: Shape = {
  uri: uri('the post'),
  cid,
  author: object('Author of the post', account),
  record: object('The post as its author wrote it', {
    $type: word('Kind of the record', 'app.bsky.feed.post'),
    text: text('Text of the post', 'A post about proxies'),
    createdAt: isoTime('When the post was written'),
    langs: words('Languages of the post', ['en']),
    embed: object('What the post includes', {
      $type: word('Kind of what is included', 'app.bsky.embed.external'),
      external: object('A linked page', preview),
    }),
  }),
  embed: object('What the post includes, ready to be shown', {
    $type: word('Kind of what is included', 'app.bsky.embed.external#view'),
    external: object('A linked page', { ...preview, thumb: picture('Picture of the linked page') }),
  }),
  replyCount: count('answers', 3),
  repostCount: count('reposts', 5),
  likeCount: count('likes', 24),
  quoteCount: count('quotes', 1),
  indexedAt: isoTime('When the platform indexed the post'),
  labels,
}

export const bluesky: Answers = {
  post: {
    post: object('The post', post),
    replies: list('Answers', {
      $type: word('Kind of the entry', 'app.bsky.feed.defs#threadViewPost'),
      post: object('The answer', post),
      replies: list('Answers to this answer, of the same form', {
        post: object('The answer', { uri: uri('the post') }),
      }),
      threadContext: object('What the author of the thread did with the answer; often empty', {}),
    }),
  },
  posts: {
    feed: list('Posts, the newest first', post),
    cursor: word('Position of the next posts; no input accepts it', '2026-01-31T12:00:00.000Z'),
  },
  profile: {
    ...account,
    description: text('What the account writes about itself', 'News about proxies'),
    followersCount: count('followers', 198_477),
    followsCount: count('accounts that it follows', 32),
    postsCount: count('posts', 659),
    indexedAt: isoTime('When the platform indexed the account'),
    associated: object('What else belongs to the account', {
      lists: count('lists', 1),
      feedgens: count('feeds', 0),
      starterPacks: count('starter packs', 0),
      labeler: flag('Whether the account labels posts', false),
    }),
  },
}
