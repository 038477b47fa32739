import {
  type Answers,
  count,
  flag,
  id,
  link,
  list,
  number,
  object,
  picture,
  pictures,
  type Shape,
  text,
  unixTime,
  word,
} from './fields.ts'

const account: Shape = {
  id: id('the account'),
  pk: id('the account'),
  username: text('Name of the account', 'example'),
  full_name: text('Name that is shown', 'Example Person'),
  is_verified: flag('Whether the account is verified', false),
  profile_pic_url: picture('Picture of the account'),
}
const isPrivate = flag('Whether the account is private', false)

const post: Shape = {
  id: id('the post and its author', '7000000000000000001_1000001'),
  pk: id('the post'),
  code: id('the post in its link', 'EXAMPLEpost'),
  caption: object('Text of the post', {
    pk: id('the text'),
    text: text('The text', 'A morning at the lake'),
  }),
  user: object('Who wrote the post', { ...account, text_post_app_is_private: isPrivate }),
  like_count: count('likes', 6_545),
  taken_at: unixTime('When the post was published'),
  media_type: number('1 for a picture, 2 for a video, 8 for a series, 19 for text', 19),
  image_versions2: object('Picture', { candidates: pictures('The picture in several sizes') }),
  accessibility_caption: text('Description of the picture', 'A lake in the morning'),
  text_post_app_info: object('Figures and state', {
    direct_reply_count: count('answers', 159),
    repost_count: count('reposts', 217),
    quote_count: count('quotes', 34),
    reshare_count: count('shares', 68),
    is_reply: flag('Whether the post answers another one', false),
    reply_control: word('Who may answer', 'everyone'),
  }),
}

export const threads: Answers = {
  post: {
    post: object('The post', { ...post, view_counts: count('views', 52_438) }),
    comments: list('Answers', post),
    relatedPosts: list('Similar posts', post),
  },
  posts: {
    posts: list('Posts, the newest first', {
      ...post,
      url: link('Link to the post', '@example/post/EXAMPLEpost'),
    }),
  },
  profile: {
    ...account,
    biography: text('What the account writes about itself', 'I take pictures of lakes'),
    follower_count: count('followers', 551_296),
    hd_profile_pic_versions: pictures('Picture of the account in several sizes'),
    bio_links: list('Links of the account', {
      url: link('Where the link leads', 'pictures'),
      is_verified: flag('Whether the link is verified', false),
      link_id: id('the link'),
    }),
    is_threads_only_user: flag('Whether the account has no profile on Instagram', false),
    text_post_app_is_private: isPrivate,
  },
  search: { posts: list('Posts', post) },
  'search-users': { users: list('Accounts', account) },
}
