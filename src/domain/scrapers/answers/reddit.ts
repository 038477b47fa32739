import {
  type Answers,
  count,
  flag,
  id,
  isoTime,
  link,
  list,
  mixed,
  number,
  object,
  picture,
  position,
  type Shape,
  size,
  text,
  unixTime,
  word,
} from './fields.ts'

const author = text('Name of the author', 'example_author')
const authorId = id('the author', 't2_exampl1')
const score = number('Upvotes less downvotes', 45)
const upvotes = count('upvotes', 45)
const subredditName = word('Name of the subreddit', 'AskReddit')
const written = unixTime('When it was written')
const permalink = word('Path of the page', '/r/AskReddit/comments/examp1/a_question/')
const url = link('Link to the page, or to what the post links to', 'r/AskReddit/comments/examp1')

const post: Shape = {
  id: id('the post', 'examp1'),
  name: id('the post, with its kind', 't3_examp1'),
  url,
  permalink,
  title: text('Title of the post', 'What is a proxy good for?'),
  selftext: text('Text of the post', 'I would like to know more'),
  author,
  author_fullname: authorId,
  subreddit: subredditName,
  subreddit_subscribers: count('people who follow the subreddit', 56_146_328),
  score,
  ups: upvotes,
  upvote_ratio: number('Share of upvotes among the votes, from 0 to 1', 0.9),
  num_comments: count('comments', 349),
  created_utc: written,
  thumbnail: word('Link to a small picture, or a word such as self', 'self'),
  is_video: flag('Whether the post is a video', false),
  over_18: flag('Whether it is for adults only', false),
}

const comment: Shape = {
  id: id('the comment', 'examp11'),
  name: id('the comment, with its kind', 't1_examp11'),
  url: link('Link to the comment', 'r/AskReddit/comments/examp1/_/examp11'),
  permalink,
  author,
  author_fullname: authorId,
  parent_id: id('what it answers', 't3_examp1'),
  subreddit: subredditName,
  body: text('Text of the comment', 'To see a site as others see it'),
  score,
  ups: upvotes,
  created_utc: written,
  created_at_iso: isoTime('When it was written'),
  depth: number('Distance from the post, from 0', 0),
}
const more = (meaning: string) =>
  object(meaning, {
    has_more: flag('Whether there are more', true),
    cursor: position('examp12,examp13'),
  })

const subreddit = object('The subreddit', {
  id: id('the subreddit', 't5_examp'),
  name: subredditName,
  nsfw: flag('Whether it is for adults only', false),
  icon: picture('Picture of the subreddit'),
  description: text('What the subreddit is about', 'Questions and answers'),
})
const found: Shape = {
  title: text('Title of the post', 'What is a proxy good for?'),
  url: link('Link to the page', 'r/AskReddit/comments/examp1'),
  permalink,
  nsfw: flag('Whether it is for adults only', false),
  spoiler: flag('Whether it reveals something', false),
}
const votes = number('Upvotes less downvotes', 1_414)
const createdAt = isoTime('When it was written')

export const reddit: Answers = {
  comments: {
    post: object('The post', post),
    comments: list('Comments', {
      ...comment,
      replies: object('Answers to the comment', {
        items: list('Answers; their own `replies` have the same form', comment),
        more: more('Whether the comment has more answers'),
      }),
    }),
    more: more('Whether the post has more comments'),
  },
  search: { posts: list('Posts', post), after: position('t3_examp2') },
  subreddit: {
    subreddit_id: id('the subreddit', 't5_examp'),
    display_name: subredditName,
    description: text('What the subreddit is about', 'Questions and answers'),
    subscribers: count('people who follow it', 57_000_000),
    weekly_active_users: count('visitors of the last week', 1_428_398),
    weekly_contributions: count('posts and comments of the last week', 8_923),
    rules: text('Rules, in Markdown', '# Rules\n\n1. Ask a question.'),
    submit_text: text('What authors read before they post', 'Ask a question'),
    icon_img: picture('Picture of the subreddit'),
    header_img: mixed('Wide picture, or null', 'https://example.com/picture.jpg'),
    advertiser_category: word('What it is about, for advertisers', 'Lifestyle'),
    created_at: isoTime('When the subreddit was created'),
  },
  'subreddit-posts': { posts: list('Posts', post), after: position('t3_examp2') },
  'subreddit-search': {
    posts: list('Posts', {
      id: id('the post, with its kind', 't3_examp1'),
      post_id: id('the post, with its kind', 't3_examp1'),
      ...found,
      votes,
      num_comments: count('comments', 582),
      created_at: createdAt,
      thumbnail: picture('Small picture'),
      subreddit,
    }),
    comments: list('Comments', {
      id: id('the comment, with its kind', 't1_examp11'),
      post_id: id('the post, with its kind', 't3_examp1'),
      author,
      body: text('Text of the comment', 'To see a site as others see it'),
      votes,
      url: link('Link to the comment', 'r/AskReddit/comments/examp1/_/examp11'),
      permalink,
      created_at: createdAt,
      post: object('Post of the comment', {
        id: id('the post, with its kind', 't3_examp1'),
        ...found,
        votes,
      }),
      subreddit,
    }),
    media: list('Pictures and videos', {
      id: id('the post, with its kind', 't3_examp1'),
      ...found,
      media_type: word('Kind: image, video or gallery', 'image'),
      image: object('The picture', { src: picture('Link to the picture'), ...size }),
      subreddit,
    }),
    cursor: position('eyJjYW5kaWRhdGVzIjoiZXhhbXBsZTIifQ=='),
  },
}
